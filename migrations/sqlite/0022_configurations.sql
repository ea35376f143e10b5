-- min_compatible: 19
-- A configuration has its number by its content, so that a replica that restarts with an older file does not become the newest.
--
-- hash: SHA-256 of the definitions of jobs and pools, in hex.
-- number: from config_counter, given when the content was loaded first, or made the newest by a user.
-- config_hash and config_at of a session: that of the configuration that it has loaded, and the time of its file (0 = unknown);
-- differs: what the governing configuration has otherwise, for people.

CREATE TABLE IF NOT EXISTS {p}configurations (
  hash   TEXT    NOT NULL PRIMARY KEY,
  number INTEGER NOT NULL,
  at     INTEGER NOT NULL -- when it got the number
);

ALTER TABLE {p}sessions
  ADD COLUMN config_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}sessions
  ADD COLUMN config_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}sessions
  ADD COLUMN differs TEXT NOT NULL DEFAULT '';
