-- min_compatible: 11
-- Tasks may be unique. A program that knows 0010 alone would change a pending task without its row here, whose uniqueness would end then,
-- and delete ended tasks without theirs.

-- unique_tasks: the last task that was added with some values. Who enqueues one with the same values locks the row until the end of the
-- transaction, and decides by the row of the task whether its uniqueness has ended.
CREATE TABLE IF NOT EXISTS {p}unique_tasks (
  pool         VARBINARY(64) NOT NULL,
  values_hash  VARBINARY(64) NOT NULL, -- of what the task is compared by, with the names of that
  task_id      VARBINARY(36) NOT NULL,
  unique_until BIGINT        NOT NULL, -- whatever the task's state; 0 = none
  unique_while VARBINARY(8)  NOT NULL, -- pending, open or empty
  token        BIGINT        NOT NULL, -- of the task as long as it was not claimed; a larger one was given by a claim
  look_at      BIGINT        NOT NULL, -- a sweep deletes the row after that if the uniqueness has ended
  PRIMARY KEY (pool, values_hash),
  KEY {p}unique_tasks_task (task_id),
  KEY {p}unique_tasks_look (look_at)
) ENGINE=InnoDB;
