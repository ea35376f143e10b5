-- min_compatible: 19
-- New columns with defaults: a program that knows 0020 alone goes on working; it has no job with suspend_after, and counts none of its runs.
--
-- suspend_after: how many runs of a job fail in a row before it is suspended, as its definition says; 0: any number. failures: how many of the last
-- runs have failed or were lost, one after the other, since it was resumed. suspend_reason: of a job that was suspended for that.

ALTER TABLE {p}jobs
  ADD COLUMN suspend_after  INT            NOT NULL DEFAULT 0,
  ADD COLUMN failures       INT            NOT NULL DEFAULT 0,
  ADD COLUMN suspend_reason VARBINARY(512) NOT NULL DEFAULT '';
