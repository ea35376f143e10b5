-- min_compatible: 19
-- A program that knows 0026 alone starts nothing that was ordered: the others do, and after it those that come.
--
-- orders: what users have asked for later: a run of a job at a time, or runs of its past due times (a backfill). next_at is when to look at it next, 0 once
-- it has ended. asked is what was asked for, and never changes; progress is how far it has come, written in the transaction that makes the runs. Both are JSON.

CREATE TABLE IF NOT EXISTS {p}orders (
  id          VARBINARY(36)  NOT NULL PRIMARY KEY,
  job         VARBINARY(64)  NOT NULL,
  kind        VARBINARY(16)  NOT NULL, -- run, backfill
  state       VARBINARY(16)  NOT NULL, -- open, done, skipped, cancelled
  by_whom     VARBINARY(255) NOT NULL DEFAULT '',
  reason      VARBINARY(512) NOT NULL DEFAULT '',
  reason_code VARBINARY(32)  NOT NULL DEFAULT '',
  created_at  BIGINT         NOT NULL,
  next_at     BIGINT         NOT NULL DEFAULT 0,
  ended_at    BIGINT         NOT NULL DEFAULT 0,
  asked       MEDIUMBLOB     NOT NULL,
  progress    MEDIUMBLOB     NOT NULL,
  KEY {p}orders_next (next_at),
  KEY {p}orders_job (job, id),
  KEY {p}orders_ended (ended_at)
) ENGINE=InnoDB;

-- triggers.order_id: the order that a run was made for.
ALTER TABLE {p}triggers
  ADD COLUMN order_id VARBINARY(36) NOT NULL DEFAULT '';
