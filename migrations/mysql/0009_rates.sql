-- min_compatible: 9
-- Pools get a rate, and limits that are changed while they run. A program that knows 0008 alone would start tasks beyond them.
--
-- rate: as in 50/s; empty: none. burst: 0 is what the rate gives in a second. set_…: an override of the API; NULL: none.
-- bucket_full_at: when the token bucket is full again, in ns since 1970.

ALTER TABLE {p}pools
  ADD COLUMN rate            VARBINARY(32)  NOT NULL DEFAULT '',
  ADD COLUMN burst           INT            NOT NULL DEFAULT 0,
  ADD COLUMN set_max_running INT            NULL,
  ADD COLUMN set_rate        VARBINARY(32)  NULL,
  ADD COLUMN set_burst       INT            NULL,
  ADD COLUMN limits_by       VARBINARY(255) NOT NULL DEFAULT '',
  ADD COLUMN bucket_full_at  BIGINT         NOT NULL DEFAULT 0;
