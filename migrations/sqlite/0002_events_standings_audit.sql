-- min_compatible: 1
-- New tables only: a program that knows 0001 alone goes on working, and writes none of these.

-- Outbox of events to notify. A row is written in the transaction of the
-- end itself and deleted in the one that makes a notification of it, or finds no receiver.
CREATE TABLE IF NOT EXISTS {p}events (
  id          TEXT    NOT NULL PRIMARY KEY,
  event       TEXT    NOT NULL, -- failed, missed, lost, recovered
  job         TEXT    NOT NULL DEFAULT '',
  pool        TEXT    NOT NULL DEFAULT '',
  trigger_at  INTEGER NOT NULL DEFAULT 0,
  trigger_seq INTEGER NOT NULL DEFAULT 0,
  until_at    INTEGER NOT NULL DEFAULT 0,
  due_count   INTEGER NOT NULL DEFAULT 1,
  task_id     TEXT    NOT NULL DEFAULT '',
  attempt     INTEGER NOT NULL DEFAULT 0,
  replica     TEXT    NOT NULL DEFAULT '',
  reason      TEXT    NOT NULL DEFAULT '',
  error       BLOB    NOT NULL,
  happened_at INTEGER NOT NULL
) WITHOUT ROWID;

-- How the last end of a job or pool went; a name without a row has had none.
CREATE TABLE IF NOT EXISTS {p}standings (
  kind            TEXT    NOT NULL, -- job, pool
  name            TEXT    NOT NULL,
  failing         INTEGER NOT NULL, -- 1 from a failed, lost or missed end to the next success
  last_success_at INTEGER NOT NULL DEFAULT 0,
  last_end_at     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Who changed what through the API.
CREATE TABLE IF NOT EXISTS {p}audit (
  id     TEXT    NOT NULL PRIMARY KEY, -- a UUIDv7: sorted by time
  at     INTEGER NOT NULL,
  who    TEXT    NOT NULL, -- name of the token; empty: access control is off
  role   TEXT    NOT NULL,
  remote TEXT    NOT NULL, -- address the request came from
  action TEXT    NOT NULL, -- the route, as in "POST /jobs/{name}/run"
  object TEXT    NOT NULL, -- name or id it was about
  status INTEGER NOT NULL  -- of the answer
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}audit_at ON {p}audit (at);
