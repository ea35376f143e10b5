-- min_compatible: 1
-- New columns, each with a default, and a new table: a program that knows 0002 alone goes on working, leaves the columns at
-- their defaults, moves tasks to {p}done without made_by, and writes no kinds. A column that is there already is left as it is.

-- made_by: the caller that enqueued the task, or requested the run; empty: a schedule, or unknown.
ALTER TABLE {p}tasks
  ADD COLUMN made_by VARBINARY(255) NOT NULL DEFAULT '';

ALTER TABLE {p}done
  ADD COLUMN made_by VARBINARY(255) NOT NULL DEFAULT '';

-- task_id, tasks: the first task that the request made, and how many. repeats: requests that the row stands for.
ALTER TABLE {p}audit
  ADD COLUMN task_id VARBINARY(36) NOT NULL DEFAULT '',
  ADD COLUMN tasks   INT           NOT NULL DEFAULT 0,
  ADD COLUMN repeats INT           NOT NULL DEFAULT 1;

-- kinds, here and below: JSON of the hash of the pool's definition, and of each kind what tells its handler from others; "" is for
-- tasks without a kind, null = any kind. Here they are those of what governs, or what programs declared before a replica came;
-- NULL: not said.
ALTER TABLE {p}pools
  ADD COLUMN kinds MEDIUMBLOB NULL;

-- What kinds of tasks the configuration of each session has handlers for, by pool.
CREATE TABLE IF NOT EXISTS {p}kinds (
  pool   VARBINARY(64) NOT NULL,
  config BIGINT        NOT NULL, -- its number
  kinds  MEDIUMBLOB    NOT NULL,
  PRIMARY KEY (config, pool)
) ENGINE=InnoDB;
