-- The tables of mode row alone.

CREATE TABLE IF NOT EXISTS {rows} (      -- locked by open transactions, which write the rest and never commit it
  namespace   {key} NOT NULL,
  name        {key} NOT NULL,
  token       {int} NOT NULL,           -- 0: free
  session_id  {key} NOT NULL,
  acquisition {key} NOT NULL,
  owner       {text} NOT NULL,
  meta        {text} NOT NULL,
  since       {int} NOT NULL,
  connection  {int} NOT NULL,
  PRIMARY KEY (namespace, name)
) {engine};

CREATE TABLE IF NOT EXISTS {anchors} (   -- sessions in mode row: never committed either
  id         {key} NOT NULL PRIMARY KEY,
  connection {int} NOT NULL
) {engine};
