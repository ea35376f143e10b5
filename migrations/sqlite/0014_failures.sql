-- min_compatible: 13
-- New columns with defaults: a program that knows 0013 alone goes on working; what fails with it is in no group of failures, and pauses no pool.
--
-- fingerprint: of a task that failed, or was lost, for good, and was not retried since: what failed in the same way has the same one;
-- empty: of any other. The index has what a list of such groups reads, so that it reads no row but one example of each.
--
-- retried_as: the task that a retry made of this one, the last if there were several; empty: none.

ALTER TABLE {p}done
  ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}done
  ADD COLUMN retried_as TEXT NOT NULL DEFAULT '';
DROP INDEX IF EXISTS {p}done_dead;
CREATE INDEX {p}done_dead ON {p}done (pool, fingerprint, id, finished_at) WHERE fingerprint > '';

-- pause_window: how the last attempts of a pool ended, if it is to be paused when they fail: a 1 for each that failed, and a 0 for each that
-- succeeded. pause_reason: of a pool that was paused for that.
ALTER TABLE {p}pools
  ADD COLUMN pause_window TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}pools
  ADD COLUMN pause_reason TEXT NOT NULL DEFAULT '';
