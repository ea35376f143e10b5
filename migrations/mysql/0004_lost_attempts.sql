-- min_compatible: 1
-- A new column with a default: a program that knows 0003 alone goes on working, and leaves it at its default.

-- may_run_until: of a task that was lost: its attempt may be running until then; 0: it has ended, or it is not known.
ALTER TABLE {p}done
  ADD COLUMN may_run_until BIGINT NOT NULL DEFAULT 0;
