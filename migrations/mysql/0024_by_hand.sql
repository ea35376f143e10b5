-- min_compatible: 19
-- Until all programs know these columns, those that do not decide as if they were 0.
--
-- suspended_until: when the override in suspended ends by itself; 0: when it is reset.
-- skip_next: how many of the next due times are skipped since a user said so; skip_by: who.

ALTER TABLE {p}jobs
  ADD COLUMN suspended_until BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN skip_next INT NOT NULL DEFAULT 0,
  ADD COLUMN skip_by VARBINARY(255) NOT NULL DEFAULT '';
