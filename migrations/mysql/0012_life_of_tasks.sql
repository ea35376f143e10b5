-- min_compatible: 12
-- Tasks expire, and have attempts, a timeout and a backoff of their own. A program that knows 0011 alone would start those that have
-- expired, and execute the others as their pools have it.
--
-- expires_at: a task of which no attempt has started by then ends; 0 = never.
--
-- lost_limit: after how many lost attempts a task is not retried; of a task as its pool's or its job's was when it was claimed.
--
-- own_…: in place of what the pool has; 0 = as the pool has it. Times are in µs.
--
-- wait_at: until when a task with state 1 waits; or, below 0, when a pending task expires, if that is what comes next. One index has both, as
-- two ranges: tasks that do not expire cost what they did.

ALTER TABLE {p}tasks
  ADD COLUMN expires_at   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN own_attempts INT    NOT NULL DEFAULT 0,
  ADD COLUMN own_timeout  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN own_backoff  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN lost_limit   INT    NOT NULL DEFAULT 3,
  DROP INDEX {p}tasks_due,
  MODIFY wait_at BIGINT GENERATED ALWAYS AS (CASE
    WHEN expires_at > 0 AND attempt = 0 AND state <> 2 AND (state <> 1 OR expires_at <= run_at) THEN -expires_at
    WHEN state = 1 THEN run_at END) STORED,
  ADD INDEX {p}tasks_due (wait_at);

ALTER TABLE {p}done
  ADD COLUMN expires_at   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN own_attempts INT    NOT NULL DEFAULT 0,
  ADD COLUMN own_timeout  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN own_backoff  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN lost_limit   INT    NOT NULL DEFAULT 3;

ALTER TABLE {p}pools
  ADD COLUMN lost_limit INT NOT NULL DEFAULT 3;
