-- min_compatible: 10
-- Tasks get a key, and pools limits and an order by it. A program that knows 0009 alone would start tasks beyond them.
--
-- task_key: empty: none. It is the last column of tasks_claim, so that the running tasks of each key are counted in that index.
-- State 4 of tasks: pending and due, waits for its key.

ALTER TABLE {p}tasks
  ADD COLUMN task_key VARBINARY(128) NOT NULL DEFAULT '',
  DROP INDEX {p}tasks_claim,
  ADD INDEX {p}tasks_claim (state, pool, rank_order, run_at, id, task_key);

ALTER TABLE {p}done
  ADD COLUMN task_key VARBINARY(128) NOT NULL DEFAULT '';

-- key_order: empty, or key. key_fair: JSON of the weights of keys that share the pool; NULL: they do not. key_pass is that of the last
-- start, as pass in keys.
ALTER TABLE {p}pools
  ADD COLUMN key_max_running INT           NOT NULL DEFAULT 0,
  ADD COLUMN key_rate        VARBINARY(32) NOT NULL DEFAULT '',
  ADD COLUMN key_burst       INT           NOT NULL DEFAULT 0,
  ADD COLUMN key_order       VARBINARY(8)  NOT NULL DEFAULT '',
  ADD COLUMN key_fair        MEDIUMBLOB    NULL,
  ADD COLUMN key_pass        BIGINT        NOT NULL DEFAULT 0;

-- keys: a key that tasks wait for, or whose rate has started some. bucket_full_at is as in pools.
CREATE TABLE IF NOT EXISTS {p}keys (
  pool           VARBINARY(64)  NOT NULL,
  task_key       VARBINARY(128) NOT NULL,
  bucket_full_at BIGINT         NOT NULL DEFAULT 0,
  look_at        BIGINT         NOT NULL DEFAULT 0, -- when a claim looks at those that wait for it; 0 = none does
  looks          TINYINT        NOT NULL DEFAULT 0, -- how often one has, and found it full; 100 at most
  pass           BIGINT         NOT NULL DEFAULT 0, -- with key_fair: the key with the smallest one starts a task next
  PRIMARY KEY (pool, task_key),
  KEY {p}keys_pool (pool, look_at, pass),
  KEY {p}keys_look (look_at, bucket_full_at)
) ENGINE=InnoDB;

-- key_waits: the tasks that wait for their key, in the order in which they are to start; with key_order all that have not ended.
CREATE TABLE IF NOT EXISTS {p}key_waits (
  pool       VARBINARY(64)  NOT NULL,
  task_key   VARBINARY(128) NOT NULL,
  place      BIGINT         NOT NULL, -- with key_order, from sequences; else 0
  rank_order SMALLINT       NOT NULL, -- this, run_at and kind are those of the task
  run_at     BIGINT         NOT NULL,
  task_id    VARBINARY(36)  NOT NULL,
  kind       VARBINARY(64)  NOT NULL,
  PRIMARY KEY (pool, task_key, place, rank_order, run_at, task_id),
  UNIQUE KEY {p}key_waits_task (task_id)
) ENGINE=InnoDB;

-- sequences: the place of the last task of a key. Who enqueues has the row locked until the end of the transaction, so that places are
-- in the order in which tasks become visible.
CREATE TABLE IF NOT EXISTS {p}sequences (
  pool       VARBINARY(64)  NOT NULL,
  task_key   VARBINARY(128) NOT NULL,
  last_place BIGINT         NOT NULL DEFAULT 0,
  PRIMARY KEY (pool, task_key)
) ENGINE=InnoDB;
