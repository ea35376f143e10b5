-- min_compatible: 1
-- Text compares byte by byte, as VARBINARY does in MySQL; tables and columns are the same there.
-- Times are microseconds since 1970, UTC; 0 = none.
-- "{p}" is the table prefix.

CREATE TABLE IF NOT EXISTS {p}meta (
  name  TEXT NOT NULL PRIMARY KEY, -- namespace, config_counter, …
  value TEXT NOT NULL
);

INSERT OR IGNORE INTO {p}meta (name, value) VALUES
  ('namespace', lower(hex(randomblob(8)))),
  ('config_counter', '0');

CREATE TABLE IF NOT EXISTS {p}stripes (
  stripe INTEGER NOT NULL PRIMARY KEY -- 0 … 63, locked where the lock service is this database
);

INSERT OR IGNORE INTO {p}stripes (stripe) VALUES
  (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15),
  (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31),
  (32), (33), (34), (35), (36), (37), (38), (39), (40), (41), (42), (43), (44), (45), (46), (47),
  (48), (49), (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62), (63);

CREATE TABLE IF NOT EXISTS {p}sessions (
  id           TEXT    NOT NULL PRIMARY KEY,
  replica      TEXT    NOT NULL,
  live         INTEGER NULL,     -- 1 until it expires, then NULL: one live session per replica id
  dead         INTEGER NOT NULL DEFAULT 0,
  beat         INTEGER NOT NULL DEFAULT 0,
  draining     INTEGER NOT NULL DEFAULT 0,
  config       INTEGER NOT NULL DEFAULT 0,
  lock_service TEXT    NOT NULL,
  ttl          INTEGER  NOT NULL DEFAULT 0, -- µs without a heartbeat after which it expires
  host         TEXT    NOT NULL,
  boot_id      TEXT    NOT NULL,
  pid          INTEGER NOT NULL,
  pid_start    INTEGER NOT NULL,
  version      TEXT    NOT NULL,
  address      TEXT    NOT NULL,
  workers      INTEGER NOT NULL,
  labels       BLOB    NOT NULL, -- JSON
  joined_at    INTEGER NOT NULL,
  seen_at      INTEGER NOT NULL -- for display; no clock decides which session expires
);
CREATE UNIQUE INDEX IF NOT EXISTS {p}sessions_live ON {p}sessions (replica, live);
CREATE INDEX IF NOT EXISTS {p}sessions_dead ON {p}sessions (dead);

CREATE TABLE IF NOT EXISTS {p}pools (
  name         TEXT    NOT NULL PRIMARY KEY,
  hash         TEXT    NOT NULL, -- '' = retired
  config       INTEGER NOT NULL, -- number of the configuration that wrote hash
  max_running  INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  on_lost      TEXT    NOT NULL,
  paused       INTEGER NULL,     -- override of the API; NULL = none
  paused_by    TEXT    NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS {p}jobs (
  name         TEXT    NOT NULL PRIMARY KEY,
  stripe       INTEGER NOT NULL,
  hash         TEXT    NOT NULL, -- '' = retired
  schedule     TEXT    NOT NULL, -- hash of schedules and zone alone
  config       INTEGER NOT NULL,
  cursor_at    INTEGER NOT NULL, -- last due time that was decided
  next_at      INTEGER NOT NULL, -- 0 = none
  fence        INTEGER NOT NULL DEFAULT 0,
  suspended    INTEGER NULL,     -- override of the API; NULL = none
  suspended_by TEXT    NOT NULL DEFAULT '',
  busy_until   INTEGER NOT NULL DEFAULT 0 -- a lost attempt may run until then
);
CREATE INDEX IF NOT EXISTS {p}jobs_next ON {p}jobs (next_at, stripe);

CREATE TABLE IF NOT EXISTS {p}triggers (
  job         TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  seq         INTEGER NOT NULL, -- 0 = schedule: each due time has exactly one such row
  until_at    INTEGER NOT NULL DEFAULT 0,
  due_count   INTEGER NOT NULL DEFAULT 1,
  cause       TEXT    NOT NULL,
  by_whom     TEXT    NOT NULL DEFAULT '',
  outcome     TEXT    NOT NULL DEFAULT '', -- '' = open
  reason      TEXT    NOT NULL DEFAULT '',
  result      TEXT    NOT NULL DEFAULT '',
  task_id     TEXT    NOT NULL DEFAULT '',
  replica     TEXT    NOT NULL,
  decided_at  INTEGER NOT NULL,
  started_at  INTEGER NOT NULL DEFAULT 0,
  finished_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, at, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}triggers_at ON {p}triggers (at, job, seq);
CREATE INDEX IF NOT EXISTS {p}triggers_outcome ON {p}triggers (outcome, at, job, seq);
CREATE INDEX IF NOT EXISTS {p}triggers_ended ON {p}triggers (result, at, job, seq);
CREATE INDEX IF NOT EXISTS {p}triggers_result ON {p}triggers (job, result, at);

CREATE TABLE IF NOT EXISTS {p}tasks (
  id            TEXT    NOT NULL PRIMARY KEY,
  pool          TEXT    NOT NULL,
  kind          TEXT    NOT NULL DEFAULT '',
  job           TEXT    NOT NULL DEFAULT '',
  trigger_at    INTEGER NOT NULL DEFAULT 0,
  trigger_seq   INTEGER NOT NULL DEFAULT 0,
  state         INTEGER NOT NULL,            -- 0 ready, 1 waits for run_at, 2 running
  rank_order    INTEGER NOT NULL DEFAULT 0,  -- −priority: smaller first
  run_at        INTEGER NOT NULL,
  attempt       INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0,
  losses        INTEGER NOT NULL DEFAULT 0,
  max_attempts  INTEGER NOT NULL DEFAULT 1,
  on_lost       TEXT    NOT NULL DEFAULT 'fail',
  token         INTEGER NOT NULL DEFAULT 0,
  session_id    TEXT    NOT NULL DEFAULT '',
  replica       TEXT    NOT NULL DEFAULT '',
  claim_id      TEXT    NOT NULL DEFAULT '',
  may_run_until INTEGER NOT NULL DEFAULT 0,
  cancel        TEXT    NOT NULL DEFAULT '', -- why a running task shall stop
  idem_key      TEXT    NOT NULL DEFAULT '',
  payload       BLOB    NOT NULL,
  tags          BLOB    NOT NULL,            -- JSON list, or empty
  retry_of      TEXT    NOT NULL DEFAULT '',
  reason        TEXT    NOT NULL DEFAULT '',
  error         BLOB    NOT NULL,
  exit_code     INTEGER NULL,
  created_at    INTEGER NOT NULL,
  started_at    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS {p}tasks_claim ON {p}tasks (state, pool, rank_order, run_at, id);
CREATE INDEX IF NOT EXISTS {p}tasks_due ON {p}tasks (state, run_at);
CREATE INDEX IF NOT EXISTS {p}tasks_job ON {p}tasks (job, id);
CREATE INDEX IF NOT EXISTS {p}tasks_pool ON {p}tasks (pool, id);

CREATE TABLE IF NOT EXISTS {p}done (
  id           TEXT    NOT NULL PRIMARY KEY,
  pool         TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  job          TEXT    NOT NULL,
  trigger_at   INTEGER NOT NULL,
  trigger_seq  INTEGER NOT NULL,
  state        TEXT    NOT NULL,
  rank_order   INTEGER NOT NULL,
  run_at       INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  failures     INTEGER NOT NULL,
  losses       INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  on_lost      TEXT    NOT NULL,
  token        INTEGER NOT NULL,
  session_id   TEXT    NOT NULL,
  replica      TEXT    NOT NULL,
  idem_key     TEXT    NOT NULL,
  payload      BLOB    NOT NULL,
  tags         BLOB    NOT NULL,
  retry_of     TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  error        BLOB    NOT NULL,
  exit_code    INTEGER NULL,
  created_at   INTEGER NOT NULL,
  started_at   INTEGER NOT NULL,
  finished_at  INTEGER NOT NULL,
  late         INTEGER NOT NULL DEFAULT 0 -- a lost attempt's own result replaced StateLost
);
CREATE INDEX IF NOT EXISTS {p}done_state ON {p}done (state, finished_at);
CREATE INDEX IF NOT EXISTS {p}done_list ON {p}done (state, id);
CREATE INDEX IF NOT EXISTS {p}done_job ON {p}done (job, state, id);
CREATE INDEX IF NOT EXISTS {p}done_pool ON {p}done (pool, state, id);

CREATE TABLE IF NOT EXISTS {p}attempts (
  task_id     TEXT    NOT NULL,
  attempt     INTEGER NOT NULL, -- earlier attempts only; the last one is the task's own row
  state       TEXT    NOT NULL,
  reason      TEXT    NOT NULL DEFAULT '',
  token       INTEGER NOT NULL,
  replica     TEXT    NOT NULL,
  started_at  INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  exit_code   INTEGER NULL,
  error       BLOB    NOT NULL,
  PRIMARY KEY (task_id, attempt)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS {p}outputs (
  task_id    TEXT    NOT NULL,
  attempt    INTEGER NOT NULL,
  output     BLOB    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (task_id, attempt)
);
CREATE INDEX IF NOT EXISTS {p}outputs_created ON {p}outputs (created_at);

CREATE TABLE IF NOT EXISTS {p}idempotency (
  pool       TEXT    NOT NULL,
  idem_key   TEXT    NOT NULL,
  task_id    TEXT    NOT NULL,
  body       TEXT    NOT NULL, -- hash of kind and payload: the same key with another body is a conflict
  created_at INTEGER NOT NULL,
  PRIMARY KEY (pool, idem_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}idempotency_task ON {p}idempotency (task_id);
