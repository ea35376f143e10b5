-- min_compatible: 10
-- Tasks get a key, and pools limits and an order by it. A program that knows 0009 alone would start tasks beyond them.
--
-- task_key: empty: none. It is the last column of tasks_claim, so that the running tasks of each key are counted in that index.
-- State 4 of tasks: pending and due, waits for its key.

ALTER TABLE {p}tasks
  ADD COLUMN task_key TEXT NOT NULL DEFAULT '';
DROP INDEX IF EXISTS {p}tasks_claim;
CREATE INDEX {p}tasks_claim ON {p}tasks (state, pool, rank_order, run_at, id, task_key);

ALTER TABLE {p}done
  ADD COLUMN task_key TEXT NOT NULL DEFAULT '';

-- key_order: empty, or key. key_fair: JSON of the weights of keys that share the pool; NULL: they do not. key_pass is that of the last
-- start, as pass in keys.
ALTER TABLE {p}pools
  ADD COLUMN key_max_running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}pools
  ADD COLUMN key_rate TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}pools
  ADD COLUMN key_burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {p}pools
  ADD COLUMN key_order TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}pools
  ADD COLUMN key_fair BLOB NULL;
ALTER TABLE {p}pools
  ADD COLUMN key_pass INTEGER NOT NULL DEFAULT 0;

-- keys: a key that tasks wait for, or whose rate has started some. bucket_full_at is as in pools.
CREATE TABLE IF NOT EXISTS {p}keys (
  pool           TEXT    NOT NULL,
  task_key       TEXT    NOT NULL,
  bucket_full_at INTEGER NOT NULL DEFAULT 0,
  look_at        INTEGER NOT NULL DEFAULT 0, -- when a claim looks at those that wait for it; 0 = none does
  looks          INTEGER NOT NULL DEFAULT 0, -- how often one has, and found it full; 100 at most
  pass           INTEGER NOT NULL DEFAULT 0, -- with key_fair: the key with the smallest one starts a task next
  PRIMARY KEY (pool, task_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {p}keys_pool ON {p}keys (pool, look_at, pass);
CREATE INDEX IF NOT EXISTS {p}keys_look ON {p}keys (look_at, bucket_full_at);

-- key_waits: the tasks that wait for their key, in the order in which they are to start; with key_order all that have not ended.
CREATE TABLE IF NOT EXISTS {p}key_waits (
  pool       TEXT    NOT NULL,
  task_key   TEXT    NOT NULL,
  place      INTEGER NOT NULL, -- with key_order, from sequences; else 0
  rank_order INTEGER NOT NULL, -- this, run_at and kind are those of the task
  run_at     INTEGER NOT NULL,
  task_id    TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  PRIMARY KEY (pool, task_key, place, rank_order, run_at, task_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS {p}key_waits_task ON {p}key_waits (task_id);

-- sequences: the place of the last task of a key. Who enqueues writes the row first, so that places are in the order in which tasks
-- become visible.
CREATE TABLE IF NOT EXISTS {p}sequences (
  pool       TEXT    NOT NULL,
  task_key   TEXT    NOT NULL,
  last_place INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (pool, task_key)
) WITHOUT ROWID;
