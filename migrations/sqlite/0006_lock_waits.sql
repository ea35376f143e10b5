-- min_compatible: 6
-- A new table, and a new state of tasks: 3 waits for locks. A program that knows 0005 alone starts no job with locks, and keeps its own
-- locks elsewhere in every lock service: it must not run beside one that knows this.

-- lock_waits: the keys that a task waits for, one row for each. Those who wait for one key are in the order in which they are
-- to get it, which is that of claims.
CREATE TABLE IF NOT EXISTS {p}lock_waits (
  lock_key   TEXT    NOT NULL,
  rank_order INTEGER NOT NULL, -- this and run_at are those of the task
  run_at     INTEGER NOT NULL,
  task_id    TEXT    NOT NULL,
  key_count  INTEGER NOT NULL, -- of the task
  pool       TEXT    NOT NULL,
  work       TEXT    NOT NULL, -- what runs it: job/NAME, or kind/POOL/KIND
  until_at   INTEGER NOT NULL, -- it waits no longer; 0 = no limit
  session_id TEXT    NOT NULL DEFAULT '', -- of the replica that waits for it at the lock service
  PRIMARY KEY (lock_key, rank_order, run_at, task_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}lock_waits_task ON {p}lock_waits (task_id);
CREATE INDEX IF NOT EXISTS {p}lock_waits_until ON {p}lock_waits (until_at, task_id);
