-- min_compatible: 19
-- A program that knows 0026 alone starts nothing that was ordered: the others do, and after it those that come.
--
-- orders: what users have asked for later: a run of a job at a time, or runs of its past due times (a backfill). next_at is when to look at it next, 0 once
-- it has ended. asked is what was asked for, and never changes; progress is how far it has come, written in the transaction that makes the runs. Both are JSON.

CREATE TABLE IF NOT EXISTS {p}orders (
  id          TEXT    NOT NULL PRIMARY KEY,
  job         TEXT    NOT NULL,
  kind        TEXT    NOT NULL, -- run, backfill
  state       TEXT    NOT NULL, -- open, done, skipped, cancelled
  by_whom     TEXT    NOT NULL DEFAULT '',
  reason      TEXT    NOT NULL DEFAULT '',
  reason_code TEXT    NOT NULL DEFAULT '',
  created_at  INTEGER NOT NULL,
  next_at     INTEGER NOT NULL DEFAULT 0,
  ended_at    INTEGER NOT NULL DEFAULT 0,
  asked       BLOB    NOT NULL,
  progress    BLOB    NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {p}orders_next ON {p}orders (next_at) WHERE next_at > 0;
CREATE INDEX IF NOT EXISTS {p}orders_job ON {p}orders (job, id);
CREATE INDEX IF NOT EXISTS {p}orders_ended ON {p}orders (ended_at) WHERE ended_at > 0;

-- triggers.order_id: the order that a run was made for.
ALTER TABLE {p}triggers
  ADD COLUMN order_id TEXT NOT NULL DEFAULT '';
