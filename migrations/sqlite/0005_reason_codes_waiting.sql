-- min_compatible: 5
-- New columns, each with a default. A program that knows 0004 alone would leave wrong codes behind, and would not see what waits:
-- no such program may be at work. What is in the ledger already keeps its sentence, and has no code.

-- reason_code: why, for programs; package jobs/reason lists the codes. reason is the same for people.
ALTER TABLE {p}triggers
  ADD COLUMN reason_code TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}tasks
  ADD COLUMN reason_code TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}done
  ADD COLUMN reason_code TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}attempts
  ADD COLUMN reason_code TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}events
  ADD COLUMN reason_code TEXT NOT NULL DEFAULT '';

-- waiting_at: a late due time that waits for the job's slot (catch_up: all); next_at says then when to look again. 0: none waits.
ALTER TABLE {p}jobs
  ADD COLUMN waiting_at INTEGER NOT NULL DEFAULT 0;

-- Before, next_at had digits below the second where a due time waits, and cursor_at was right before it.
UPDATE {p}jobs SET waiting_at = cursor_at + 1 WHERE next_at % 1000000 <> 0 AND (cursor_at + 1) % 1000000 = 0;
