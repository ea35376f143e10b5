-- min_compatible: 8
-- The time at which a waiting task is due, as on MySQL, where the index of these times is smaller for it. The rest of what changes
-- there has no like here: SQLite writes a row anew with each change.

ALTER TABLE {p}tasks
  ADD COLUMN wait_at INTEGER GENERATED ALWAYS AS (CASE WHEN state = 1 THEN run_at END) VIRTUAL;
DROP INDEX IF EXISTS {p}tasks_due;
CREATE INDEX {p}tasks_due ON {p}tasks (wait_at) WHERE wait_at IS NOT NULL;
