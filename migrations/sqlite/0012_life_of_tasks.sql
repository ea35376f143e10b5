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
-- two ranges.

ALTER TABLE {p}tasks
  ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}tasks
  ADD COLUMN own_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}tasks
  ADD COLUMN own_timeout INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}tasks
  ADD COLUMN own_backoff INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}tasks
  ADD COLUMN lost_limit INTEGER NOT NULL DEFAULT 3;
DROP INDEX IF EXISTS {p}tasks_due;
ALTER TABLE {p}tasks
  DROP COLUMN wait_at;
ALTER TABLE {p}tasks
  ADD COLUMN wait_at INTEGER GENERATED ALWAYS AS (CASE
    WHEN expires_at > 0 AND attempt = 0 AND state <> 2 AND (state <> 1 OR expires_at <= run_at) THEN -expires_at
    WHEN state = 1 THEN run_at END) VIRTUAL;
CREATE INDEX {p}tasks_due ON {p}tasks (wait_at) WHERE wait_at IS NOT NULL;

ALTER TABLE {p}done
  ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}done
  ADD COLUMN own_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}done
  ADD COLUMN own_timeout INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}done
  ADD COLUMN own_backoff INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}done
  ADD COLUMN lost_limit INTEGER NOT NULL DEFAULT 3;

ALTER TABLE {p}pools
  ADD COLUMN lost_limit INTEGER NOT NULL DEFAULT 3;
