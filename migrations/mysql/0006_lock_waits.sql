-- min_compatible: 6
-- A new table, and a new state of tasks: 3 waits for locks. A program that knows 0005 alone starts no job with locks, and keeps its own
-- locks elsewhere in every lock service: it must not run beside one that knows this.

-- lock_waits: the keys that a task waits for, one row for each. Those who wait for one key are in the order in which they are
-- to get it, which is that of claims.
CREATE TABLE IF NOT EXISTS {p}lock_waits (
  lock_key   VARBINARY(200) NOT NULL,
  rank_order SMALLINT       NOT NULL, -- this and run_at are those of the task
  run_at     BIGINT         NOT NULL,
  task_id    VARBINARY(36)  NOT NULL,
  key_count  INT            NOT NULL, -- of the task
  pool       VARBINARY(64)  NOT NULL,
  work       VARBINARY(140) NOT NULL, -- what runs it: job/NAME, or kind/POOL/KIND
  until_at   BIGINT         NOT NULL, -- it waits no longer; 0 = no limit
  session_id VARBINARY(36)  NOT NULL DEFAULT '', -- of the replica that waits for it at the lock service
  PRIMARY KEY (lock_key, rank_order, run_at, task_id),
  KEY {p}lock_waits_task (task_id),
  KEY {p}lock_waits_until (until_at, task_id)
) ENGINE=InnoDB;
