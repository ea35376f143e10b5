-- min_compatible: 9
-- Pools get a rate, and limits that are changed while they run. A program that knows 0008 alone would start tasks beyond them.
--
-- rate: as in 50/s; empty: none. burst: 0 is what the rate gives in a second. set_…: an override of the API; NULL: none.
-- bucket_full_at: when the token bucket is full again, in ns since 1970.

ALTER TABLE {p}pools
  ADD COLUMN rate TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}pools
  ADD COLUMN burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}pools
  ADD COLUMN set_max_running INTEGER NULL;
ALTER TABLE {p}pools
  ADD COLUMN set_rate TEXT NULL;
ALTER TABLE {p}pools
  ADD COLUMN set_burst INTEGER NULL;
ALTER TABLE {p}pools
  ADD COLUMN limits_by TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}pools
  ADD COLUMN bucket_full_at INTEGER NOT NULL DEFAULT 0;
