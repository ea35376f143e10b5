-- min_compatible: 19
-- New columns with defaults, and a table: a program that knows 0019 alone goes on working; what it decides names no definition, and what it
-- defines is not in the history until a newer program governs.
--
-- definition: of a trigger: its job's definition then, see definitions. config: the number of its decider's configuration. overdue: 1 if a
-- replica decided it that had looked for what the owner of its stripe had left. clock_offset: how far the decider's clock was ahead of the
-- database's, in µs. took: from the call of the decider until the row was written, in µs. 0 and '' of rows by older programs.

ALTER TABLE {p}triggers
  ADD COLUMN definition TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}triggers
  ADD COLUMN config INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}triggers
  ADD COLUMN overdue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}triggers
  ADD COLUMN clock_offset INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}triggers
  ADD COLUMN took INTEGER NOT NULL DEFAULT 0;

-- defined: the hash whose definition is in definitions; another one than hash: none is.
ALTER TABLE {p}jobs
  ADD COLUMN defined TEXT NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS {p}definitions (
  job        TEXT    NOT NULL,
  hash       TEXT    NOT NULL, -- of jobs
  definition TEXT    NOT NULL, -- what people and triggers name it by
  config     INTEGER NOT NULL, -- number of the configuration that brought it first
  first_at   INTEGER NOT NULL, -- when it began to govern first
  since_at   INTEGER NOT NULL, -- the same, last
  until_at   INTEGER NOT NULL, -- when it ceased to; 0 = it governs
  body       BLOB    NOT NULL, -- JSON without secrets
  PRIMARY KEY (job, hash)
);
CREATE INDEX IF NOT EXISTS {p}definitions_since ON {p}definitions (job, since_at, definition);
CREATE INDEX IF NOT EXISTS {p}definitions_until ON {p}definitions (until_at);

-- definition_key: what the names of definitions are made with, so that nobody finds a secret value by the name of the definition that has it.
INSERT OR IGNORE INTO {p}meta (name, value) VALUES
  ('definition_key', lower(hex(randomblob(32))));
