-- min_compatible: 7
-- Indexes have the rows alone that are looked for by them: nearly all tasks wait for nothing and belong to no job. A program that
-- knows 0006 alone looks for running tasks by tasks_due, which has them no more.

DROP INDEX IF EXISTS {p}tasks_due;
CREATE INDEX {p}tasks_due ON {p}tasks (state, run_at) WHERE state = 1;
DROP INDEX IF EXISTS {p}tasks_job;
CREATE INDEX {p}tasks_job ON {p}tasks (job, id) WHERE job > '';
DROP INDEX IF EXISTS {p}done_job;
CREATE INDEX {p}done_job ON {p}done (job, state, id) WHERE job > '';
