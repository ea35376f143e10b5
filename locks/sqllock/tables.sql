-- The tables of both modes. Times are µs by the clock of the database.

CREATE TABLE IF NOT EXISTS {marks} (
  namespace {key} NOT NULL PRIMARY KEY,
  token     {int} NOT NULL               -- the highest ever
) {engine};

CREATE TABLE IF NOT EXISTS {sessions} (
  id         {key} NOT NULL PRIMARY KEY,
  namespace  {key} NOT NULL,
  expires_at {int} NOT NULL,
  dead       {int} NOT NULL               -- 1: final, its leases are being deleted
) {engine};

CREATE TABLE IF NOT EXISTS {leases} (
  namespace   {key} NOT NULL,
  name        {key} NOT NULL,
  token       {int} NOT NULL,
  session_id  {key} NOT NULL,
  acquisition {key} NOT NULL,
  owner       {text} NOT NULL,
  meta        {text} NOT NULL,
  since       {int} NOT NULL,
  PRIMARY KEY (namespace, name)
) {engine};
