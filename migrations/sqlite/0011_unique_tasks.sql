-- min_compatible: 11
-- Tasks may be unique. A program that knows 0010 alone would change a pending task without its row here, whose uniqueness would end then,
-- and delete ended tasks without theirs.

-- unique_tasks: the last task that was added with some values. Who enqueues one with the same values decides by the row of the task whether
-- its uniqueness has ended.
CREATE TABLE IF NOT EXISTS {p}unique_tasks (
  pool         TEXT    NOT NULL,
  values_hash  TEXT    NOT NULL, -- of what the task is compared by, with the names of that
  task_id      TEXT    NOT NULL,
  unique_until INTEGER NOT NULL, -- whatever the task's state; 0 = none
  unique_while TEXT    NOT NULL, -- pending, open or empty
  token        INTEGER NOT NULL, -- of the task as long as it was not claimed; a larger one was given by a claim
  look_at      INTEGER NOT NULL, -- a sweep deletes the row after that if the uniqueness has ended
  PRIMARY KEY (pool, values_hash)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}unique_tasks_task ON {p}unique_tasks (task_id);
CREATE INDEX IF NOT EXISTS {p}unique_tasks_look ON {p}unique_tasks (look_at);
