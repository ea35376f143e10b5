-- min_compatible: 1
-- New tables only: a program that knows 0001 alone goes on working, and writes none of these.

-- Outbox of events to notify. A row is written in the transaction of the
-- end itself and deleted in the one that makes a notification of it, or finds no receiver.
CREATE TABLE IF NOT EXISTS {p}events (
  id          VARBINARY(36)  NOT NULL PRIMARY KEY,
  event       VARBINARY(16)  NOT NULL, -- failed, missed, lost, recovered
  job         VARBINARY(64)  NOT NULL DEFAULT '',
  pool        VARBINARY(64)  NOT NULL DEFAULT '',
  trigger_at  BIGINT         NOT NULL DEFAULT 0,
  trigger_seq INT            NOT NULL DEFAULT 0,
  until_at    BIGINT         NOT NULL DEFAULT 0,
  due_count   INT            NOT NULL DEFAULT 1,
  task_id     VARBINARY(36)  NOT NULL DEFAULT '',
  attempt     INT            NOT NULL DEFAULT 0,
  replica     VARBINARY(128) NOT NULL DEFAULT '',
  reason      VARBINARY(512) NOT NULL DEFAULT '',
  error       BLOB           NOT NULL,
  happened_at BIGINT         NOT NULL
) ENGINE=InnoDB;

-- How the last end of a job or pool went; a name without a row has had none.
CREATE TABLE IF NOT EXISTS {p}standings (
  kind            VARBINARY(4)  NOT NULL, -- job, pool
  name            VARBINARY(64) NOT NULL,
  failing         TINYINT       NOT NULL, -- 1 from a failed, lost or missed end to the next success
  last_success_at BIGINT        NOT NULL DEFAULT 0,
  last_end_at     BIGINT        NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, name)
) ENGINE=InnoDB;

-- Who changed what through the API.
CREATE TABLE IF NOT EXISTS {p}audit (
  id      VARBINARY(36)  NOT NULL PRIMARY KEY, -- a UUIDv7: sorted by time
  at      BIGINT         NOT NULL,
  who     VARBINARY(128) NOT NULL, -- name of the token; empty: access control is off
  role    VARBINARY(16)  NOT NULL,
  remote  VARBINARY(64)  NOT NULL, -- address the request came from
  action  VARBINARY(64)  NOT NULL, -- the route, as in "POST /jobs/{name}/run"
  object  VARBINARY(128) NOT NULL, -- name or id it was about
  status  INT            NOT NULL, -- of the answer
  KEY {p}audit_at (at)
) ENGINE=InnoDB;
