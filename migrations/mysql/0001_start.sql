-- min_compatible: 1
-- Names and keys are VARBINARY: default collations merge Backup and backup.
-- Times are BIGINT microseconds since 1970, UTC; 0 = none.
-- "{p}" is the table prefix. MySQL commits DDL at once: each statement may run a second time.

CREATE TABLE IF NOT EXISTS {p}meta (
  name  VARBINARY(64)  NOT NULL PRIMARY KEY, -- namespace, config_counter, …
  value VARBINARY(255) NOT NULL
) ENGINE=InnoDB;

INSERT IGNORE INTO {p}meta (name, value) VALUES
  ('namespace', LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 16)),
  ('config_counter', '0');

CREATE TABLE IF NOT EXISTS {p}stripes (
  stripe SMALLINT NOT NULL PRIMARY KEY -- 0 … 63, locked where the lock service is this database
) ENGINE=InnoDB;

INSERT IGNORE INTO {p}stripes (stripe) VALUES
  (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15),
  (16), (17), (18), (19), (20), (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31),
  (32), (33), (34), (35), (36), (37), (38), (39), (40), (41), (42), (43), (44), (45), (46), (47),
  (48), (49), (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62), (63);

CREATE TABLE IF NOT EXISTS {p}sessions (
  id           VARBINARY(36)  NOT NULL PRIMARY KEY,
  replica      VARBINARY(128) NOT NULL,
  live         TINYINT        NULL,     -- 1 until it expires, then NULL: one live session per replica id
  dead         TINYINT        NOT NULL DEFAULT 0,
  beat         BIGINT         NOT NULL DEFAULT 0,
  draining     TINYINT        NOT NULL DEFAULT 0,
  config       BIGINT         NOT NULL DEFAULT 0,
  lock_service VARBINARY(255) NOT NULL,
  ttl          BIGINT  NOT NULL DEFAULT 0, -- µs without a heartbeat after which it expires
  host         VARBINARY(255) NOT NULL,
  boot_id      VARBINARY(64)  NOT NULL,
  pid          BIGINT         NOT NULL,
  pid_start    BIGINT         NOT NULL,
  version      VARBINARY(64)  NOT NULL,
  address      VARBINARY(255) NOT NULL,
  workers      INT            NOT NULL,
  labels       BLOB           NOT NULL, -- JSON
  joined_at    BIGINT         NOT NULL,
  seen_at      BIGINT         NOT NULL, -- for display; no clock decides which session expires
  UNIQUE KEY {p}sessions_live (replica, live),
  KEY {p}sessions_dead (dead)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}pools (
  name         VARBINARY(64) NOT NULL PRIMARY KEY,
  hash         VARBINARY(64) NOT NULL, -- '' = retired
  config       BIGINT        NOT NULL, -- number of the configuration that wrote hash
  max_running  INT           NOT NULL,
  max_attempts INT           NOT NULL,
  on_lost      VARBINARY(8)  NOT NULL,
  paused       TINYINT       NULL,     -- override of the API; NULL = none
  paused_by    VARBINARY(255) NOT NULL DEFAULT ''
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}jobs (
  name         VARBINARY(64) NOT NULL PRIMARY KEY,
  stripe       SMALLINT      NOT NULL,
  hash         VARBINARY(64) NOT NULL, -- '' = retired
  schedule     VARBINARY(64) NOT NULL, -- hash of schedules and zone alone
  config       BIGINT        NOT NULL,
  cursor_at    BIGINT        NOT NULL, -- last due time that was decided
  next_at      BIGINT        NOT NULL, -- 0 = none
  fence        BIGINT        NOT NULL DEFAULT 0,
  suspended    TINYINT       NULL,     -- override of the API; NULL = none
  suspended_by VARBINARY(255) NOT NULL DEFAULT '',
  busy_until   BIGINT        NOT NULL DEFAULT 0, -- a lost attempt may run until then
  KEY {p}jobs_next (next_at, stripe)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}triggers (
  job         VARBINARY(64) NOT NULL,
  at          BIGINT        NOT NULL,
  seq         INT           NOT NULL, -- 0 = schedule: each due time has exactly one such row
  until_at    BIGINT        NOT NULL DEFAULT 0,
  due_count   INT           NOT NULL DEFAULT 1,
  cause       VARBINARY(16) NOT NULL,
  by_whom     VARBINARY(255) NOT NULL DEFAULT '',
  outcome     VARBINARY(16) NOT NULL DEFAULT '', -- '' = open
  reason      VARBINARY(512) NOT NULL DEFAULT '',
  result      VARBINARY(16) NOT NULL DEFAULT '',
  task_id     VARBINARY(36) NOT NULL DEFAULT '',
  replica     VARBINARY(128) NOT NULL,
  decided_at  BIGINT        NOT NULL,
  started_at  BIGINT        NOT NULL DEFAULT 0,
  finished_at BIGINT        NOT NULL DEFAULT 0,
  PRIMARY KEY (job, at, seq),
  KEY {p}triggers_at (at, job, seq),
  KEY {p}triggers_outcome (outcome, at, job, seq),
  KEY {p}triggers_ended (result, at, job, seq),
  KEY {p}triggers_result (job, result, at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}tasks (
  id            VARBINARY(36)  NOT NULL PRIMARY KEY,
  pool          VARBINARY(64)  NOT NULL,
  kind          VARBINARY(64)  NOT NULL DEFAULT '',
  job           VARBINARY(64)  NOT NULL DEFAULT '',
  trigger_at    BIGINT         NOT NULL DEFAULT 0,
  trigger_seq   INT            NOT NULL DEFAULT 0,
  state         TINYINT        NOT NULL,            -- 0 ready, 1 waits for run_at, 2 running
  rank_order    SMALLINT       NOT NULL DEFAULT 0,  -- −priority: smaller first
  run_at        BIGINT         NOT NULL,
  attempt       INT            NOT NULL DEFAULT 0,
  failures      INT            NOT NULL DEFAULT 0,
  losses        INT            NOT NULL DEFAULT 0,
  max_attempts  INT            NOT NULL DEFAULT 1,
  on_lost       VARBINARY(8)   NOT NULL DEFAULT 'fail',
  token         BIGINT         NOT NULL DEFAULT 0,
  session_id    VARBINARY(36)  NOT NULL DEFAULT '',
  replica       VARBINARY(128) NOT NULL DEFAULT '',
  claim_id      VARBINARY(36)  NOT NULL DEFAULT '',
  may_run_until BIGINT         NOT NULL DEFAULT 0,
  cancel        VARBINARY(255) NOT NULL DEFAULT '', -- why a running task shall stop
  idem_key      VARBINARY(255) NOT NULL DEFAULT '',
  payload       MEDIUMBLOB     NOT NULL,
  tags          BLOB           NOT NULL,            -- JSON list, or empty
  retry_of      VARBINARY(36)  NOT NULL DEFAULT '',
  reason        VARBINARY(512) NOT NULL DEFAULT '',
  error         BLOB           NOT NULL,
  exit_code     INT            NULL,
  created_at    BIGINT         NOT NULL,
  started_at    BIGINT         NOT NULL DEFAULT 0,
  KEY {p}tasks_claim (state, pool, rank_order, run_at, id),
  KEY {p}tasks_due (state, run_at),
  KEY {p}tasks_job (job, id),
  KEY {p}tasks_pool (pool, id)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}done (
  id            VARBINARY(36)  NOT NULL PRIMARY KEY,
  pool          VARBINARY(64)  NOT NULL,
  kind          VARBINARY(64)  NOT NULL,
  job           VARBINARY(64)  NOT NULL,
  trigger_at    BIGINT         NOT NULL,
  trigger_seq   INT            NOT NULL,
  state         VARBINARY(16)  NOT NULL,
  rank_order    SMALLINT       NOT NULL,
  run_at        BIGINT         NOT NULL,
  attempt       INT            NOT NULL,
  failures      INT            NOT NULL,
  losses        INT            NOT NULL,
  max_attempts  INT            NOT NULL,
  on_lost       VARBINARY(8)   NOT NULL,
  token         BIGINT         NOT NULL,
  session_id    VARBINARY(36)  NOT NULL,
  replica       VARBINARY(128) NOT NULL,
  idem_key      VARBINARY(255) NOT NULL,
  payload       MEDIUMBLOB     NOT NULL,
  tags          BLOB           NOT NULL,
  retry_of      VARBINARY(36)  NOT NULL,
  reason        VARBINARY(512) NOT NULL,
  error         BLOB           NOT NULL,
  exit_code     INT            NULL,
  created_at    BIGINT         NOT NULL,
  started_at    BIGINT         NOT NULL,
  finished_at   BIGINT         NOT NULL,
  late          TINYINT        NOT NULL DEFAULT 0, -- a lost attempt's own result replaced StateLost
  KEY {p}done_state (state, finished_at),
  KEY {p}done_list (state, id),
  KEY {p}done_job (job, state, id),
  KEY {p}done_pool (pool, state, id)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}attempts (
  task_id     VARBINARY(36)  NOT NULL,
  attempt     INT            NOT NULL, -- earlier attempts only; the last one is the task's own row
  state       VARBINARY(16)  NOT NULL,
  reason      VARBINARY(512) NOT NULL DEFAULT '',
  token       BIGINT         NOT NULL,
  replica     VARBINARY(128) NOT NULL,
  started_at  BIGINT         NOT NULL,
  finished_at BIGINT         NOT NULL,
  exit_code   INT            NULL,
  error       BLOB           NOT NULL,
  PRIMARY KEY (task_id, attempt)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}outputs (
  task_id    VARBINARY(36) NOT NULL,
  attempt    INT           NOT NULL,
  output     MEDIUMBLOB    NOT NULL,
  created_at BIGINT        NOT NULL,
  PRIMARY KEY (task_id, attempt),
  KEY {p}outputs_created (created_at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}idempotency (
  pool       VARBINARY(64)  NOT NULL,
  idem_key   VARBINARY(255) NOT NULL,
  task_id    VARBINARY(36)  NOT NULL,
  body       VARBINARY(64)  NOT NULL, -- hash of kind and payload: the same key with another body is a conflict
  created_at BIGINT         NOT NULL,
  PRIMARY KEY (pool, idem_key),
  KEY {p}idempotency_task (task_id)
) ENGINE=InnoDB;
