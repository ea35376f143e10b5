-- What a replica sends to sqlite, with two tasks or jobs in each batch. Ids and times are others each time.

-- enqueue

BEGIN IMMEDIATE;
SELECT name, hash, max_attempts, on_lost, lost_limit, kinds, key_order, NULL AS now_at, NULL AS namespace FROM lockstep_pools WHERE hash <> '' AND name IN ('p');
INSERT INTO lockstep_tasks (id, pool, kind, task_key, state, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, max_attempts, on_lost, lost_limit, idem_key, payload, payload_size, tags, error, created_at, made_by) VALUES ('01900000-0000-7000-8000-000000000000','p','','',0,0,1800000000000000,0,0,0,0,5,'retry',3,'','',0,'','',1800000000000000,''),('01900000-0000-7000-8000-000000000000','p','','',0,0,1800000000000000,0,0,0,0,5,'retry',3,'','',0,'','',1800000000000000,'');
COMMIT;

-- claim

BEGIN IMMEDIATE;
SELECT dead, config, NULL, (SELECT said FROM lockstep_pause WHERE id=0) FROM lockstep_sessions WHERE id='01900000-0000-7000-8000-000000000000';
SELECT name, hash, paused, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at, max_attempts, on_lost, lost_limit, key_max_running, key_rate, key_burst, key_order, key_fair, key_pass, kind_limits, set_key_limits, keys_left, keys_moved FROM lockstep_pools WHERE name IN ('p') ORDER BY name;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, payload, session_id, cancel, may_run_until FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=0 AND pool='p' AND (run_at<=1800000000000000 OR run_at=created_at) AND (expires_at=0 OR expires_at>1800000000000000 OR attempt>0) AND job NOT IN ('x') AND (job<>'' OR kind IN ('')) ORDER BY rank_order, run_at, id LIMIT 2 OFFSET 0;
UPDATE lockstep_tasks
			SET token=token+1, may_run_until=1800000000000000, max_attempts=5, on_lost='retry', lost_limit=3,
				state=2, attempt=attempt+1, session_id='01900000-0000-7000-8000-000000000000', replica='r', claim_id='01900000-0000-7000-8000-000000000000', started_at=1800000000000000
		 WHERE state+0 IN (0, 4) AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=0;
COMMIT;

-- finish

BEGIN IMMEDIATE;
INSERT INTO lockstep_done (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			v.new_end, failures+v.new_failures, losses+v.new_losses, v.new_reason, v.new_code, v.new_error, v.new_exit, v.new_until, v.new_fingerprint, v.new_finished
		FROM (SELECT column1 AS new_end, column2 AS new_failures, column3 AS new_losses, column4 AS new_reason, column5 AS new_code, column6 AS new_error, column7 AS new_exit, column8 AS new_until, column9 AS new_fingerprint, column10 AS new_finished, column11 AS key_id, column12 AS key_token FROM (VALUES ('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',1),('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',1))) v CROSS JOIN lockstep_tasks WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id=v.key_id AND token=v.key_token;
DELETE FROM lockstep_tasks AS t WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=1;
SELECT name, failing FROM lockstep_standings WHERE kind='pool' AND name IN ('p');
COMMIT;

-- enqueue with keys

BEGIN IMMEDIATE;
SELECT name, hash, max_attempts, on_lost, lost_limit, kinds, key_order, NULL AS now_at, NULL AS namespace FROM lockstep_pools WHERE hash <> '' AND name IN ('p');
INSERT OR IGNORE INTO lockstep_idempotency (pool, idem_key, task_id, body, created_at) VALUES ('p','01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000','01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b',1800000000000000),('p','01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000','01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b',1800000000000000);
SELECT pool, idem_key, task_id, body FROM lockstep_idempotency WHERE idem_key IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND pool='p';
INSERT INTO lockstep_tasks (id, pool, kind, task_key, state, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, max_attempts, on_lost, lost_limit, idem_key, payload, payload_size, tags, error, created_at, made_by) VALUES ('01900000-0000-7000-8000-000000000000','p','','',0,0,1800000000000000,0,0,0,0,5,'retry',3,'01900000-0000-7000-8000-000000000000','',0,'','',1800000000000000,''),('01900000-0000-7000-8000-000000000000','p','','',0,0,1800000000000000,0,0,0,0,5,'retry',3,'01900000-0000-7000-8000-000000000000','',0,'','',1800000000000000,'');
COMMIT;

-- finish, again with output

BEGIN IMMEDIATE;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, session_id, cancel, may_run_until FROM lockstep_tasks WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') ORDER BY id;
UPDATE lockstep_tasks
		SET state=v.new_state, run_at=v.new_due, attempt=attempt-v.new_undone, failures=failures+v.new_failures, losses=losses+v.new_losses,
			reason=v.new_reason, reason_code=v.new_code, error=v.new_error, exit_code=v.new_exit,
			session_id='', replica='', claim_id='', may_run_until=0, cancel='', started_at=0, progress=''
	 FROM (SELECT column1 AS new_state, column2 AS new_due, column3 AS new_undone, column4 AS new_failures, column5 AS new_losses, column6 AS new_reason, column7 AS new_code, column8 AS new_error, column9 AS new_exit, column10 AS key_id, column11 AS key_token, column12 AS key_may_run_until FROM (VALUES (1,1800000000000000,0,1,0,'01900000-0000-7000-8000-000000000000','','',NULL,'01900000-0000-7000-8000-000000000000',1,1800000000000000),(1,1800000000000000,0,1,0,'01900000-0000-7000-8000-000000000000','','',NULL,'01900000-0000-7000-8000-000000000000',1,1800000000000000))) v WHERE cancel='' AND state+0 IN (2, 2) AND id=v.key_id AND token=v.key_token AND may_run_until=v.key_may_run_until;
INSERT INTO lockstep_attempts (task_id, attempt, state, reason, reason_code, token, replica, started_at, finished_at, exit_code, error) VALUES ('01900000-0000-7000-8000-000000000000',1,'failed','01900000-0000-7000-8000-000000000000','',1,'r',1800000000000000,1800000000000000,NULL,''),('01900000-0000-7000-8000-000000000000',1,'failed','01900000-0000-7000-8000-000000000000','',1,'r',1800000000000000,1800000000000000,NULL,'');
INSERT OR IGNORE INTO lockstep_outputs (task_id, attempt, output, created_at, spans) VALUES ('01900000-0000-7000-8000-000000000000',1,'out',1800000000000000,''),('01900000-0000-7000-8000-000000000000',1,'out',1800000000000000,'');
COMMIT;

-- ready


		SELECT '' AS name, 0, '', 0, NULL, NULL, NULL, 0, 0,
			NULL AS now_at, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1) AS next_at,
			(SELECT look_at FROM lockstep_keys INDEXED BY lockstep_keys_look WHERE look_at>COALESCE(NULL, 1800000000000000) ORDER BY look_at LIMIT 1) AS look_at, NULL AS set_keys,
			NULL AS key_fair, NULL AS crowded, NULL AS keys_moved,
			(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 LIMIT 1) AS expires_at,
			(SELECT next_at FROM lockstep_jobs INDEXED BY lockstep_jobs_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS due_at,
			(SELECT state FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=2 LIMIT 1) AS runs, (SELECT id FROM lockstep_events WHERE id>'' ORDER BY id LIMIT 1) AS happened, (SELECT said FROM lockstep_pause WHERE id=0) AS said,
			(SELECT due_by FROM lockstep_expectations WHERE due_by>0 ORDER BY due_by LIMIT 1) AS expected_by,
			(SELECT next_at FROM lockstep_orders INDEXED BY lockstep_orders_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS ordered_at
		UNION ALL
		SELECT name, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at,
			CASE WHEN COALESCE(set_max_running, max_running)=0 THEN 0
			ELSE (SELECT COUNT(*) FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=2 AND t.pool=p.name) END, NULL, NULL, NULL, NULL,
			key_fair, CASE WHEN (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 LIMIT 1) IS NOT NULL
			THEN (SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1 OFFSET 200) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE hash<>'' AND COALESCE(paused, 0)=0 AND keys_moved IS NULL
		AND ((SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 AND k.look_at<=COALESCE(NULL, 1800000000000000) LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>COALESCE(NULL, 1800000000000000)+60000000 LIMIT 1) IS NOT NULL)
		UNION ALL
		SELECT name, 0, '', 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, set_key_limits, NULL, NULL, keys_moved, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE set_key_limits IS NOT NULL OR keys_moved IS NOT NULL;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 AND wait_at<=1800000000000000 ORDER BY wait_at LIMIT 1000;
UPDATE lockstep_tasks SET state=0 WHERE state+0=1 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');

		SELECT '' AS name, 0, '', 0, NULL, NULL, NULL, 0, 0,
			NULL AS now_at, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1) AS next_at,
			(SELECT look_at FROM lockstep_keys INDEXED BY lockstep_keys_look WHERE look_at>COALESCE(NULL, 1800000000000000) ORDER BY look_at LIMIT 1) AS look_at, NULL AS set_keys,
			NULL AS key_fair, NULL AS crowded, NULL AS keys_moved,
			(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 LIMIT 1) AS expires_at,
			(SELECT next_at FROM lockstep_jobs INDEXED BY lockstep_jobs_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS due_at,
			(SELECT state FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=2 LIMIT 1) AS runs, (SELECT id FROM lockstep_events WHERE id>'' ORDER BY id LIMIT 1) AS happened, (SELECT said FROM lockstep_pause WHERE id=0) AS said,
			(SELECT due_by FROM lockstep_expectations WHERE due_by>0 ORDER BY due_by LIMIT 1) AS expected_by,
			(SELECT next_at FROM lockstep_orders INDEXED BY lockstep_orders_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS ordered_at
		UNION ALL
		SELECT name, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at,
			CASE WHEN COALESCE(set_max_running, max_running)=0 THEN 0
			ELSE (SELECT COUNT(*) FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=2 AND t.pool=p.name) END, NULL, NULL, NULL, NULL,
			key_fair, CASE WHEN (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 LIMIT 1) IS NOT NULL
			THEN (SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1 OFFSET 200) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE hash<>'' AND COALESCE(paused, 0)=0 AND keys_moved IS NULL
		AND ((SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 AND k.look_at<=COALESCE(NULL, 1800000000000000) LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>COALESCE(NULL, 1800000000000000)+60000000 LIMIT 1) IS NOT NULL)
		UNION ALL
		SELECT name, 0, '', 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, set_key_limits, NULL, NULL, keys_moved, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE set_key_limits IS NOT NULL OR keys_moved IS NOT NULL;
COMMIT;

-- poll


		SELECT '' AS name, 0, '', 0, NULL, NULL, NULL, 0, 0,
			NULL AS now_at, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1) AS next_at,
			(SELECT look_at FROM lockstep_keys INDEXED BY lockstep_keys_look WHERE look_at>COALESCE(NULL, 1800000000000000) ORDER BY look_at LIMIT 1) AS look_at, NULL AS set_keys,
			NULL AS key_fair, NULL AS crowded, NULL AS keys_moved,
			(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 LIMIT 1) AS expires_at,
			(SELECT next_at FROM lockstep_jobs INDEXED BY lockstep_jobs_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS due_at,
			(SELECT state FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=2 LIMIT 1) AS runs, (SELECT id FROM lockstep_events WHERE id>'' ORDER BY id LIMIT 1) AS happened, (SELECT said FROM lockstep_pause WHERE id=0) AS said,
			(SELECT due_by FROM lockstep_expectations WHERE due_by>0 ORDER BY due_by LIMIT 1) AS expected_by,
			(SELECT next_at FROM lockstep_orders INDEXED BY lockstep_orders_next WHERE next_at>0 ORDER BY next_at LIMIT 1) AS ordered_at
		UNION ALL
		SELECT name, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at,
			CASE WHEN COALESCE(set_max_running, max_running)=0 THEN 0
			ELSE (SELECT COUNT(*) FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=2 AND t.pool=p.name) END, NULL, NULL, NULL, NULL,
			key_fair, CASE WHEN (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 LIMIT 1) IS NOT NULL
			THEN (SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1 OFFSET 200) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE hash<>'' AND COALESCE(paused, 0)=0 AND keys_moved IS NULL
		AND ((SELECT t.id FROM lockstep_tasks t INDEXED BY lockstep_tasks_claim WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>0 AND k.look_at<=COALESCE(NULL, 1800000000000000) LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM lockstep_keys k INDEXED BY lockstep_keys_pool WHERE k.pool=p.name AND k.look_at>COALESCE(NULL, 1800000000000000)+60000000 LIMIT 1) IS NOT NULL)
		UNION ALL
		SELECT name, 0, '', 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, set_key_limits, NULL, NULL, keys_moved, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM lockstep_pools p WHERE set_key_limits IS NOT NULL OR keys_moved IS NOT NULL;

-- look for what expires

SELECT NULL, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 ORDER BY wait_at DESC LIMIT 1),
		(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1);

-- end what has expired

SELECT NULL, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 ORDER BY wait_at DESC LIMIT 1),
		(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1);
BEGIN IMMEDIATE;
SELECT id FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 AND wait_at<=1800000000000000 ORDER BY wait_at LIMIT 1000;
SELECT id FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 AND wait_at>=-1800000000000000 ORDER BY wait_at DESC LIMIT 2;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, session_id, cancel, may_run_until FROM lockstep_tasks WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND state+0<>2 ORDER BY id;
INSERT INTO lockstep_done (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			'cancelled', failures+0, losses+0, 'expired at 2030-03-17T17:46:40Z, before an attempt started', 'expired', '', NULL, 0, '', 1800000000000000
		FROM lockstep_tasks WHERE state+0 IN (0, 1) AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=0 AND may_run_until=0;
DELETE FROM lockstep_tasks AS t WHERE state+0 IN (0, 1) AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=0 AND may_run_until=0;
SELECT NULL, (SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at<0 ORDER BY wait_at DESC LIMIT 1),
		(SELECT wait_at FROM lockstep_tasks INDEXED BY lockstep_tasks_due WHERE wait_at>0 ORDER BY wait_at LIMIT 1);
COMMIT;

-- decide

BEGIN IMMEDIATE;
SELECT dead, config, NULL, (SELECT said FROM lockstep_pause WHERE id=0) FROM lockstep_sessions WHERE id='01900000-0000-7000-8000-000000000000';
SELECT name, hash, cursor_at, next_at, waiting_at, due_at, fence, suspended, suspended_until, skip_next, skip_by, busy_until FROM lockstep_jobs WHERE name IN ('job00000','job00001') ORDER BY name;
SELECT job, id, trigger_at, trigger_seq, state, pool, attempt, replica, run_at, started_at, created_at, retry_of, reason_code, cancel FROM lockstep_tasks WHERE job>'' AND job IN ('job00000','job00001') ORDER BY job, id;
SELECT name, hash, paused, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at, max_attempts, on_lost, lost_limit, key_max_running, key_rate, key_burst, key_order, key_fair, key_pass, kind_limits, set_key_limits, keys_left, keys_moved FROM lockstep_pools WHERE name IN ('q') ORDER BY name;
INSERT OR IGNORE INTO lockstep_triggers (job, at, seq, until_at, due_count, cause, by_whom, outcome,
		reason, reason_code, result, task_id, replica, decided_at, started_at, finished_at, definition, config, overdue, clock_offset, took, order_id) VALUES ('job00000',1800000000000000,0,0,1,'schedule','','','','','','01900000-0000-7000-8000-000000000000','r',1800000000000000,1800000000000000,0,'0123456789abcdef',1,0,0,0,''),('job00001',1800000000000000,0,0,1,'schedule','','','','','','01900000-0000-7000-8000-000000000000','r',1800000000000000,1800000000000000,0,'0123456789abcdef',1,0,0,0,'');
INSERT INTO lockstep_tasks (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at,
		attempt, max_attempts, on_lost, lost_limit, token, session_id, replica, may_run_until, payload, payload_size, tags, retry_of, reason, reason_code, error,
		created_at, started_at, made_by) VALUES ('01900000-0000-7000-8000-000000000000','q','','job00000',1800000000000000,0,2,0,1800000000000000,1,1,'fail',3,1,'01900000-0000-7000-8000-000000000000','r',1800000000000000,'',0,'','','','','',1800000000000000,1800000000000000,''),('01900000-0000-7000-8000-000000000000','q','','job00001',1800000000000000,0,2,0,1800000000000000,1,1,'fail',3,1,'01900000-0000-7000-8000-000000000000','r',1800000000000000,'',0,'','','','','',1800000000000000,1800000000000000,'');
INSERT INTO lockstep_jobs (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, due_at, fence, skip_next, busy_until) VALUES ('job00000',0,'','',0,1800000000000000,1800000000000000,0,0,1,0,0),('job00001',0,'','',0,1800000000000000,1800000000000000,0,0,1,0,0) ON CONFLICT (name) DO UPDATE SET cursor_at=excluded.cursor_at, next_at=excluded.next_at, waiting_at=excluded.waiting_at, due_at=excluded.due_at, fence=excluded.fence, skip_next=excluded.skip_next, busy_until=excluded.busy_until;
COMMIT;

-- finish of jobs

BEGIN IMMEDIATE;
UPDATE lockstep_triggers
		SET outcome=v.new_outcome, result=v.new_end,
			reason=CASE WHEN reason_code='forced' THEN CONCAT(reason, v.new_appended) ELSE v.new_reason END,
			reason_code=CASE WHEN reason_code='forced' AND v.new_code='' THEN reason_code ELSE v.new_code END, finished_at=v.new_finished
	 FROM (SELECT column1 AS new_outcome, column2 AS new_end, column3 AS new_appended, column4 AS new_reason, column5 AS new_code, column6 AS new_finished, column7 AS key_job, column8 AS key_at, column9 AS key_seq, column10 AS key_task_id FROM (VALUES ('ran','succeeded','; 01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000','',1800000000000000,'job00000',1800000000000000,0,'01900000-0000-7000-8000-000000000000'),('ran','succeeded','; 01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000','',1800000000000000,'job00001',1800000000000000,0,'01900000-0000-7000-8000-000000000000'))) v WHERE COALESCE(outcome, '')='' AND job=v.key_job AND at=v.key_at AND seq=v.key_seq AND task_id=v.key_task_id;
INSERT INTO lockstep_done (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			v.new_end, failures+v.new_failures, losses+v.new_losses, v.new_reason, v.new_code, v.new_error, v.new_exit, v.new_until, v.new_fingerprint, v.new_finished
		FROM (SELECT column1 AS new_end, column2 AS new_failures, column3 AS new_losses, column4 AS new_reason, column5 AS new_code, column6 AS new_error, column7 AS new_exit, column8 AS new_until, column9 AS new_fingerprint, column10 AS new_finished, column11 AS key_id, column12 AS key_token FROM (VALUES ('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',1),('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',1))) v CROSS JOIN lockstep_tasks WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id=v.key_id AND token=v.key_token;
DELETE FROM lockstep_tasks AS t WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=1;
SELECT kind, name, failing, last_success_at, last_end_at FROM lockstep_standings WHERE name IN ('job00000','job00001') AND kind='job' ORDER BY kind, name;
INSERT OR IGNORE INTO lockstep_standings (kind, name, failing) VALUES ('job','job00000',0),('job','job00001',0);
SELECT kind, name, failing, last_success_at, last_end_at FROM lockstep_standings WHERE name IN ('job00000','job00001') AND kind='job' ORDER BY kind, name;
INSERT INTO lockstep_standings (kind, name, failing, last_success_at, last_end_at) VALUES ('job','job00000',0,1800000000000000,1800000000000000),('job','job00001',0,1800000000000000,1800000000000000) ON CONFLICT (kind, name) DO UPDATE SET failing=excluded.failing, last_success_at=excluded.last_success_at, last_end_at=excluded.last_end_at;
COMMIT;

-- decide what waits

BEGIN IMMEDIATE;
SELECT dead, config, NULL, (SELECT said FROM lockstep_pause WHERE id=0) FROM lockstep_sessions WHERE id='01900000-0000-7000-8000-000000000000';
SELECT name, hash, cursor_at, next_at, waiting_at, due_at, fence, suspended, suspended_until, skip_next, skip_by, busy_until FROM lockstep_jobs WHERE name IN ('job00000','job00001') ORDER BY name;
SELECT job, id, trigger_at, trigger_seq, state, pool, attempt, replica, run_at, started_at, created_at, retry_of, reason_code, cancel FROM lockstep_tasks WHERE job>'' AND job IN ('job00000','job00001') ORDER BY job, id;
INSERT OR IGNORE INTO lockstep_triggers (job, at, seq, until_at, due_count, cause, by_whom, outcome,
		reason, reason_code, result, task_id, replica, decided_at, started_at, finished_at, definition, config, overdue, clock_offset, took, order_id) VALUES ('job00000',1800000000000000,0,0,1,'schedule','','','','','','01900000-0000-7000-8000-000000000000','r',1800000000000000,0,0,'0123456789abcdef',1,0,0,0,''),('job00001',1800000000000000,0,0,1,'schedule','','','','','','01900000-0000-7000-8000-000000000000','r',1800000000000000,0,0,'0123456789abcdef',1,0,0,0,'');
INSERT INTO lockstep_tasks (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at,
		attempt, max_attempts, on_lost, lost_limit, token, session_id, replica, may_run_until, payload, payload_size, tags, retry_of, reason, reason_code, error,
		created_at, started_at, made_by) VALUES ('01900000-0000-7000-8000-000000000000','q','','job00000',1800000000000000,0,0,0,1800000000000000,0,1,'fail',3,0,'','',0,'',0,'','','','','',1800000000000000,0,''),('01900000-0000-7000-8000-000000000000','q','','job00001',1800000000000000,0,0,0,1800000000000000,0,1,'fail',3,0,'','',0,'',0,'','','','','',1800000000000000,0,'');
INSERT INTO lockstep_jobs (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, due_at, fence, skip_next, busy_until) VALUES ('job00000',0,'','',0,1800000000000000,1800000000000000,0,0,1,0,0),('job00001',0,'','',0,1800000000000000,1800000000000000,0,0,1,0,0) ON CONFLICT (name) DO UPDATE SET cursor_at=excluded.cursor_at, next_at=excluded.next_at, waiting_at=excluded.waiting_at, due_at=excluded.due_at, fence=excluded.fence, skip_next=excluded.skip_next, busy_until=excluded.busy_until;
COMMIT;

-- claim of jobs

BEGIN IMMEDIATE;
SELECT dead, config, NULL, (SELECT said FROM lockstep_pause WHERE id=0) FROM lockstep_sessions WHERE id='01900000-0000-7000-8000-000000000000';
SELECT name, hash, paused, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at, max_attempts, on_lost, lost_limit, key_max_running, key_rate, key_burst, key_order, key_fair, key_pass, kind_limits, set_key_limits, keys_left, keys_moved FROM lockstep_pools WHERE name IN ('q') ORDER BY name;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, payload, session_id, cancel, may_run_until FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=0 AND pool='q' AND (run_at<=1800000000000000 OR run_at=created_at) AND (expires_at=0 OR expires_at>1800000000000000 OR attempt>0) AND job NOT IN ('x') AND (job<>'' OR kind IN ('')) ORDER BY rank_order, run_at, id LIMIT 2 OFFSET 0;
SELECT name, hash, cursor_at, next_at, waiting_at, due_at, fence, suspended, suspended_until, skip_next, skip_by, busy_until FROM lockstep_jobs WHERE name IN ('job00000','job00001') ORDER BY name;
INSERT INTO lockstep_jobs (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, due_at, fence, skip_next, busy_until) VALUES ('job00000',0,'','',0,1800000000000000,1800000000000000,0,0,2,0,0),('job00001',0,'','',0,1800000000000000,1800000000000000,0,0,2,0,0) ON CONFLICT (name) DO UPDATE SET cursor_at=excluded.cursor_at, next_at=excluded.next_at, waiting_at=excluded.waiting_at, due_at=excluded.due_at, fence=excluded.fence, skip_next=excluded.skip_next, busy_until=excluded.busy_until;
UPDATE lockstep_triggers SET started_at=1800000000000000, lock_took=0 WHERE started_at=0 AND COALESCE(outcome, '')='' AND (job, at, seq, task_id) IN (VALUES ('job00000',1800000000000000,0,'01900000-0000-7000-8000-000000000000'),('job00001',1800000000000000,0,'01900000-0000-7000-8000-000000000000'));
UPDATE lockstep_tasks
			SET token=token+2, may_run_until=1800000000000000, max_attempts=1, on_lost='fail', lost_limit=3,
				state=2, attempt=attempt+1, session_id='01900000-0000-7000-8000-000000000000', replica='r', claim_id='01900000-0000-7000-8000-000000000000', started_at=1800000000000000
		 WHERE state+0 IN (0, 4) AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=0;
COMMIT;

-- own

SELECT id, token, claim_id, cancel, session_id FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=2 AND (session_id='01900000-0000-7000-8000-000000000000' OR NOT EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id=session_id AND s.dead=0)) ORDER BY id;

-- extend

BEGIN IMMEDIATE;
UPDATE lockstep_tasks SET may_run_until=1800000000000000 WHERE may_run_until<1800000000000000 AND session_id='01900000-0000-7000-8000-000000000000' AND EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id='01900000-0000-7000-8000-000000000000' AND s.dead=0) AND state+0=2 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2;
SELECT id, token FROM lockstep_tasks WHERE session_id='01900000-0000-7000-8000-000000000000' AND EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id='01900000-0000-7000-8000-000000000000' AND s.dead=0) AND state+0=2 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2;
COMMIT;

-- report progress

UPDATE lockstep_tasks SET progress='400000 text' WHERE session_id='01900000-0000-7000-8000-000000000000' AND EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id='01900000-0000-7000-8000-000000000000' AND s.dead=0) AND state+0=2 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2;

-- write output

BEGIN IMMEDIATE;
SELECT id, token FROM lockstep_tasks WHERE session_id='01900000-0000-7000-8000-000000000000' AND EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id='01900000-0000-7000-8000-000000000000' AND s.dead=0) AND state+0=2 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2 ORDER BY id;
INSERT INTO lockstep_chunks (task_id, token, first_byte, data) VALUES ('01900000-0000-7000-8000-000000000000',2,0,'text'),('01900000-0000-7000-8000-000000000000',2,0,'text') ON CONFLICT (task_id, token, first_byte) DO UPDATE SET data=excluded.data;
COMMIT;

-- write more output

BEGIN IMMEDIATE;
SELECT id, token FROM lockstep_tasks WHERE session_id='01900000-0000-7000-8000-000000000000' AND EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id='01900000-0000-7000-8000-000000000000' AND s.dead=0) AND state+0=2 AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2 ORDER BY id;
INSERT INTO lockstep_chunks (task_id, token, first_byte, data) VALUES ('01900000-0000-7000-8000-000000000000',2,100000,'text'),('01900000-0000-7000-8000-000000000000',2,100000,'text') ON CONFLICT (task_id, token, first_byte) DO UPDATE SET data=excluded.data;
DELETE FROM lockstep_chunks AS t WHERE first_byte>=32768 AND first_byte<50000 AND task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2;
COMMIT;

-- hand back

BEGIN IMMEDIATE;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, session_id, cancel, may_run_until FROM lockstep_tasks WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') ORDER BY id;
UPDATE lockstep_triggers SET started_at=0 WHERE COALESCE(outcome, '')='' AND (job, at, seq, task_id) IN (VALUES ('job00000',1800000000000000,0,'01900000-0000-7000-8000-000000000000'),('job00001',1800000000000000,0,'01900000-0000-7000-8000-000000000000'));
UPDATE lockstep_tasks
		SET state=v.new_state, run_at=v.new_due, attempt=attempt-v.new_undone, failures=failures+v.new_failures, losses=losses+v.new_losses,
			reason=v.new_reason, reason_code=v.new_code, error=v.new_error, exit_code=v.new_exit,
			session_id='', replica='', claim_id='', may_run_until=0, cancel='', started_at=0, progress=''
	 FROM (SELECT column1 AS new_state, column2 AS new_due, column3 AS new_undone, column4 AS new_failures, column5 AS new_losses, column6 AS new_reason, column7 AS new_code, column8 AS new_error, column9 AS new_exit, column10 AS key_id, column11 AS key_token, column12 AS key_may_run_until FROM (VALUES (0,1800000000000000,1,0,0,'01900000-0000-7000-8000-000000000000','','',NULL,'01900000-0000-7000-8000-000000000000',2,1800000000000000),(0,1800000000000000,1,0,0,'01900000-0000-7000-8000-000000000000','','',NULL,'01900000-0000-7000-8000-000000000000',2,1800000000000000))) v WHERE cancel='' AND state+0 IN (2, 2) AND id=v.key_id AND token=v.key_token AND may_run_until=v.key_may_run_until;
COMMIT;

-- finish with results

BEGIN IMMEDIATE;
INSERT INTO lockstep_done (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			v.new_end, failures+v.new_failures, losses+v.new_losses, v.new_reason, v.new_code, v.new_error, v.new_exit, v.new_until, v.new_fingerprint, v.new_finished
		FROM (SELECT column1 AS new_end, column2 AS new_failures, column3 AS new_losses, column4 AS new_reason, column5 AS new_code, column6 AS new_error, column7 AS new_exit, column8 AS new_until, column9 AS new_fingerprint, column10 AS new_finished, column11 AS key_id, column12 AS key_token FROM (VALUES ('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',2),('succeeded',0,0,'01900000-0000-7000-8000-000000000000','','',NULL,0,'',1800000000000000,'01900000-0000-7000-8000-000000000000',2))) v CROSS JOIN lockstep_tasks WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id=v.key_id AND token=v.key_token;
DELETE FROM lockstep_tasks AS t WHERE state+0=2 AND session_id='01900000-0000-7000-8000-000000000000' AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=2;
INSERT OR IGNORE INTO lockstep_results (task_id, result) VALUES ('01900000-0000-7000-8000-000000000000','{"n": 1}'),('01900000-0000-7000-8000-000000000000','{"n": 1}');
SELECT name, failing FROM lockstep_standings WHERE kind='pool' AND name IN ('p');
COMMIT;

-- reap

SELECT id FROM lockstep_tasks INDEXED BY lockstep_tasks_claim WHERE state=2 AND NOT EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id=session_id AND s.dead=0) LIMIT 2;
BEGIN IMMEDIATE;
SELECT id, pool, kind, job, task_key, trigger_at, trigger_seq, state, rank_order, run_at, expires_at, attempt, losses, max_attempts, own_attempts, own_timeout, own_backoff, on_lost, lost_limit, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, made_by, tags, session_id, cancel, may_run_until FROM lockstep_tasks WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND state+0=2 AND NOT EXISTS (SELECT 1 FROM lockstep_sessions s WHERE s.id=session_id AND s.dead=0) ORDER BY id;
SELECT id FROM lockstep_sessions WHERE pool<>'' AND id IN ('01900000-0000-7000-8000-000000000000');
SELECT name, suspended, suspended_until, suspend_after, failures FROM lockstep_jobs WHERE name IN ('job00000','job00001') ORDER BY name;
SELECT name, hash, cursor_at, next_at, waiting_at, due_at, fence, suspended, suspended_until, skip_next, skip_by, busy_until FROM lockstep_jobs WHERE name IN ('job00000','job00001') ORDER BY name;
INSERT INTO lockstep_jobs (name, stripe, hash, schedule, config, cursor_at, next_at, waiting_at, due_at, fence, skip_next, busy_until) VALUES ('job00000',0,'','',0,1800000000000000,1800000000000000,0,0,3,0,1800000000000000),('job00001',0,'','',0,1800000000000000,1800000000000000,0,0,3,0,1800000000000000) ON CONFLICT (name) DO UPDATE SET cursor_at=excluded.cursor_at, next_at=excluded.next_at, waiting_at=excluded.waiting_at, due_at=excluded.due_at, fence=excluded.fence, skip_next=excluded.skip_next, busy_until=excluded.busy_until;
SELECT DISTINCT task_id FROM lockstep_chunks WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
UPDATE lockstep_triggers
		SET outcome='lost', result='lost',
			reason=CASE WHEN reason_code='forced' THEN CONCAT(reason, '; the session of replica r expired while it had the task') ELSE 'the session of replica r expired while it had the task' END,
			reason_code=CASE WHEN reason_code='forced' AND 'replica_died'='' THEN reason_code ELSE 'replica_died' END, finished_at=1800000000000000
	 WHERE COALESCE(outcome, '')='' AND (job, at, seq, task_id) IN (VALUES ('job00000',1800000000000000,0,'01900000-0000-7000-8000-000000000000'),('job00001',1800000000000000,0,'01900000-0000-7000-8000-000000000000'));
INSERT INTO lockstep_done (id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, session_id, replica, idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			state, failures, losses, reason, reason_code, error, exit_code, may_run_until, fingerprint, finished_at)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, rank_order, run_at, expires_at, own_attempts, own_timeout, own_backoff, attempt,
			max_attempts, on_lost, lost_limit, token, RTRIM(session_id), RTRIM(replica), idem_key, payload, payload_size, tags, retry_of, created_at, started_at, made_by,
			v.new_end, failures+v.new_failures, losses+v.new_losses, v.new_reason, v.new_code, v.new_error, v.new_exit, v.new_until, v.new_fingerprint, v.new_finished
		FROM (SELECT column1 AS new_end, column2 AS new_failures, column3 AS new_losses, column4 AS new_reason, column5 AS new_code, column6 AS new_error, column7 AS new_exit, column8 AS new_until, column9 AS new_fingerprint, column10 AS new_finished, column11 AS key_id, column12 AS key_token, column13 AS key_may_run_until FROM (VALUES ('lost',0,1,'the session of replica r expired while it had the task','replica_died','',NULL,1800000000000000,'d464b015fe9ec2e8',1800000000000000,'01900000-0000-7000-8000-000000000000',3,1800000000000000),('lost',0,1,'the session of replica r expired while it had the task','replica_died','',NULL,1800000000000000,'f059b08e4c6d032d',1800000000000000,'01900000-0000-7000-8000-000000000000',3,1800000000000000))) v CROSS JOIN lockstep_tasks WHERE state+0 IN (2, 2) AND id=v.key_id AND token=v.key_token AND may_run_until=v.key_may_run_until;
DELETE FROM lockstep_tasks AS t WHERE state+0 IN (2, 2) AND id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=3 AND may_run_until=1800000000000000;
SELECT task_id, token, first_byte, data FROM lockstep_chunks WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=3;
DELETE FROM lockstep_chunks AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND token=3;
SELECT kind, name, failing, last_success_at, last_end_at FROM lockstep_standings WHERE name IN ('job00000','job00001') AND kind='job' ORDER BY kind, name;
INSERT INTO lockstep_standings (kind, name, failing, last_success_at, last_end_at) VALUES ('job','job00000',1,1800000000000000,1800000000000000),('job','job00001',1,1800000000000000,1800000000000000) ON CONFLICT (kind, name) DO UPDATE SET failing=excluded.failing, last_success_at=excluded.last_success_at, last_end_at=excluded.last_end_at;
INSERT INTO lockstep_events (id, event, job, pool, trigger_at, trigger_seq, until_at, due_count, task_id, attempt, replica, reason, reason_code, error, happened_at) VALUES ('01900000-0000-7000-8000-000000000000','lost','job00000','q',1800000000000000,0,0,1,'01900000-0000-7000-8000-000000000000',1,'r','the session of replica r expired while it had the task','replica_died','',1800000000000000),('01900000-0000-7000-8000-000000000000','lost','job00001','q',1800000000000000,0,0,1,'01900000-0000-7000-8000-000000000000',1,'r','the session of replica r expired while it had the task','replica_died','',1800000000000000);
COMMIT;

-- sweep

BEGIN IMMEDIATE;
SELECT name FROM lockstep_jobs WHERE hash='' AND EXISTS
		(SELECT 1 FROM lockstep_tasks INDEXED BY lockstep_tasks_job WHERE job>'' AND job=lockstep_jobs.name AND state+0<>2) ORDER BY name LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT job, at, seq FROM lockstep_triggers WHERE at<1800000000000000 AND until_at<1800000000000000 AND decided_at<1800000000000000 AND finished_at<1800000000000000 AND outcome<>'' ORDER BY at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT job, hash FROM lockstep_definitions d WHERE until_at>0 AND until_at<1800000000000000 AND (SELECT g.at FROM lockstep_triggers g WHERE g.job=d.job AND g.at<=d.until_at ORDER BY g.at LIMIT 1) IS NULL ORDER BY until_at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_audit WHERE at<1800000000000000 ORDER BY at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_orders WHERE ended_at>0 AND ended_at<1800000000000000 ORDER BY ended_at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_done WHERE state='succeeded' AND finished_at<1800000000000000 ORDER BY finished_at LIMIT 2;
DELETE FROM lockstep_done AS t WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_attempts AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_outputs AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_results AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_chunks AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_idempotency AS t INDEXED BY lockstep_idempotency_task WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_unique_tasks AS t INDEXED BY lockstep_unique_tasks_task WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_done WHERE state='failed' AND finished_at<1800000000000000 ORDER BY finished_at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_done WHERE state='lost' AND finished_at<1800000000000000 ORDER BY finished_at LIMIT 2;
DELETE FROM lockstep_done AS t WHERE id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_attempts AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_outputs AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_results AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_chunks AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_idempotency AS t INDEXED BY lockstep_idempotency_task WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
DELETE FROM lockstep_unique_tasks AS t INDEXED BY lockstep_unique_tasks_task WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000');
COMMIT;
BEGIN IMMEDIATE;
SELECT id FROM lockstep_done WHERE state='cancelled' AND finished_at<1800000000000000 ORDER BY finished_at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT task_id, attempt FROM lockstep_outputs WHERE created_at<1800000000000000 ORDER BY created_at LIMIT 2;
DELETE FROM lockstep_outputs AS t WHERE task_id IN ('01900000-0000-7000-8000-000000000000','01900000-0000-7000-8000-000000000000') AND attempt=1;
COMMIT;
BEGIN IMMEDIATE;
SELECT pool, task_key FROM lockstep_keys INDEXED BY lockstep_keys_look WHERE look_at=0 AND bucket_full_at<1800000000000000*1000 LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT pool, task_key FROM lockstep_sequences s WHERE last_place<1800000000000000 AND (SELECT w.task_id FROM lockstep_key_waits w WHERE w.pool=s.pool AND w.task_key=s.task_key LIMIT 1) IS NULL LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT pool, values_hash FROM lockstep_unique_tasks INDEXED BY lockstep_unique_tasks_look WHERE look_at>0 AND look_at<1800000000000000 ORDER BY look_at LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT value FROM lockstep_meta WHERE name = 'config_counter';
SELECT id FROM lockstep_sessions WHERE dead=1 AND pool='' AND seen_at<1800000000000000 AND id NOT IN (SELECT session_id FROM lockstep_tasks WHERE state=2) LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT value FROM lockstep_meta WHERE name = 'config_counter';
SELECT id FROM lockstep_sessions WHERE dead=1 AND pool<>'' AND seen_at<1800000000000000 AND id NOT IN (SELECT session_id FROM lockstep_tasks WHERE state=2) LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT value FROM lockstep_meta WHERE name = 'config_counter';
SELECT config, pool FROM lockstep_kinds WHERE config NOT IN (SELECT config FROM lockstep_sessions) ORDER BY config, pool LIMIT 2;
COMMIT;
BEGIN IMMEDIATE;
SELECT value FROM lockstep_meta WHERE name = 'config_counter';
SELECT hash FROM lockstep_configurations WHERE number<(SELECT COALESCE(MAX(number), 0) FROM lockstep_configurations WHERE at<1800000000000000) AND number<=(SELECT MAX(number) FROM lockstep_configurations)-1000 AND hash NOT IN (SELECT config_hash FROM lockstep_sessions) ORDER BY number LIMIT 2;
COMMIT;
