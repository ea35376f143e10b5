-- min_compatible: 19
-- due_at: of a job with jitter, the due time whose trigger starts at next_at. 0: next_at is the due time. A program that knows 0022 alone leaves
-- it as it was, behind cursor_at or after next_at: then it does not count.

ALTER TABLE {p}jobs
  ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;
