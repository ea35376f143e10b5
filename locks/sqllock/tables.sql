-- The tables of both modes. Times are µs by the clock of the database.

CREATE TABLE IF NOT EXISTS {marks} (      -- its row is locked by what grants or frees in turn: it lets in one after the other
  namespace {key} NOT NULL PRIMARY KEY,
  token     {int} NOT NULL               -- the highest ever
) {engine};

CREATE TABLE IF NOT EXISTS {sessions} (
  id         {key} NOT NULL PRIMARY KEY,
  namespace  {key} NOT NULL,
  owner      {text} NOT NULL,
  ttl        {int} NOT NULL,              -- µs
  expires_at {int} NOT NULL,
  dead       {int} NOT NULL,              -- 1: final, its leases are being deleted
  evictions  {int} NOT NULL               -- so many of its leases were taken from it
) {engine};

CREATE TABLE IF NOT EXISTS {leases} (     -- who holds a key: several, if they hold it together
  namespace   {key} NOT NULL,
  name        {key} NOT NULL,
  token       {int} NOT NULL,
  session_id  {key} NOT NULL,
  acquisition {key} NOT NULL,
  meta        {text} NOT NULL,
  since       {int} NOT NULL,
  shared      {int} NOT NULL,
  capacity    {int} NOT NULL,             -- the limit
  waits       {int} NOT NULL,             -- 0: the key has no places
  PRIMARY KEY (namespace, name, token){of_session}
) {engine};

CREATE TABLE IF NOT EXISTS {places} (     -- who waits for a key, in the order of the numbers
  namespace   {key} NOT NULL,
  name        {key} NOT NULL,
  number      {int} NOT NULL,
  session_id  {key} NOT NULL,
  acquisition {key} NOT NULL,
  meta        {text} NOT NULL,
  since       {int} NOT NULL,
  shared      {int} NOT NULL,
  capacity    {int} NOT NULL,
  PRIMARY KEY (namespace, name, number){of_session}
) {engine};
