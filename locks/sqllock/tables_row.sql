-- The tables of mode row alone. Only {rows} ever has committed rows.

CREATE TABLE IF NOT EXISTS {rows} (      -- what is locked: a row is there while its key is used
  namespace {key} NOT NULL,
  name      {key} NOT NULL,
  PRIMARY KEY (namespace, name)
) {engine};

CREATE TABLE IF NOT EXISTS {holds} (     -- who holds a key: written by the transaction that has locked its row, and never committed
  token       {int} NOT NULL AUTO_INCREMENT PRIMARY KEY,
  namespace   {key} NOT NULL,
  name        {key} NOT NULL,
  session_id  {key} NOT NULL,
  acquisition {key} NOT NULL,
  owner       {text} NOT NULL,
  meta        {text} NOT NULL,
  since       {int} NOT NULL,
  connection  {int} NOT NULL,
  KEY by_name (namespace, name)
) {engine};

CREATE TABLE IF NOT EXISTS {anchors} (   -- sessions: never committed either
  id         {key} NOT NULL PRIMARY KEY,
  connection {int} NOT NULL
) {engine};
