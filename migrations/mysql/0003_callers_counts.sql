-- min_compatible: 1
-- New columns only, each with a default: a program that knows 0002 alone goes on working, leaves them as they
-- are born, and moves tasks to {p}done without made_by. A column that is there already is left as it is.

-- made_by: who enqueued the task, or asked for the run; empty: a schedule, or not said.
ALTER TABLE {p}tasks
  ADD COLUMN made_by VARBINARY(255) NOT NULL DEFAULT '';

ALTER TABLE {p}done
  ADD COLUMN made_by VARBINARY(255) NOT NULL DEFAULT '';

-- task_id, tasks: the first task that the request made, and how many. repeats: requests that the row stands for.
ALTER TABLE {p}audit
  ADD COLUMN task_id VARBINARY(36) NOT NULL DEFAULT '',
  ADD COLUMN tasks   INT           NOT NULL DEFAULT 0,
  ADD COLUMN repeats INT           NOT NULL DEFAULT 1;
