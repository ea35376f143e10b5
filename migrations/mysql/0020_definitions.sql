-- min_compatible: 19
-- New columns with defaults, and a table: a program that knows 0019 alone goes on working; what it decides names no definition, and what it
-- defines is not in the history until a newer program governs.
--
-- definition: of a trigger: its job's definition then, see definitions. config: the number of its decider's configuration. overdue: 1 if a
-- replica decided it that had looked for what the owner of its stripe had left. clock_offset: how far the decider's clock was ahead of the
-- database's, in µs. took: from the call of the decider until the row was written, in µs. 0 and '' of rows by older programs.

ALTER TABLE {p}triggers
  ADD COLUMN definition   VARBINARY(16) NOT NULL DEFAULT '',
  ADD COLUMN config       BIGINT        NOT NULL DEFAULT 0,
  ADD COLUMN overdue      TINYINT       NOT NULL DEFAULT 0,
  ADD COLUMN clock_offset BIGINT        NOT NULL DEFAULT 0,
  ADD COLUMN took         BIGINT        NOT NULL DEFAULT 0;

-- defined: the hash whose definition is in definitions; another one than hash: none is.
ALTER TABLE {p}jobs
  ADD COLUMN defined VARBINARY(64) NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS {p}definitions (
  job        VARBINARY(64) NOT NULL,
  hash       VARBINARY(64) NOT NULL, -- of jobs
  definition VARBINARY(16) NOT NULL, -- what people and triggers name it by
  config     BIGINT        NOT NULL, -- number of the configuration that brought it first
  first_at   BIGINT        NOT NULL, -- when it began to govern first
  since_at   BIGINT        NOT NULL, -- the same, last
  until_at   BIGINT        NOT NULL, -- when it ceased to; 0 = it governs
  body       MEDIUMBLOB    NOT NULL, -- JSON without secrets
  PRIMARY KEY (job, hash),
  KEY {p}definitions_since (job, since_at, definition),
  KEY {p}definitions_until (until_at)
) ENGINE=InnoDB;

-- definition_key: what the names of definitions are made with, so that nobody finds a secret value by the name of the definition that has it.
INSERT IGNORE INTO {p}meta (name, value) VALUES
  ('definition_key', SHA2(CONCAT(UUID(), RAND(), RAND()), 256));
