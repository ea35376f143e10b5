-- min_compatible: 19
-- A new column with a default: a program that knows 0027 alone goes on working; its claims leave it as it was.
--
-- lock_took: how long the replica that started the task of a trigger first waited for locks before that: for that of the pool's claims, and for those
-- that the task has, in µs. 0: it asked for none.

ALTER TABLE {p}triggers
  ADD COLUMN lock_took INTEGER NOT NULL DEFAULT 0;
