-- min_compatible: 17
-- Limits by key and by kind can be set while a pool runs. A program that knows 0016 alone would start tasks beyond them.
--
-- set_key_limits: JSON of what is set in place of the definition: per_key, per_kind and fair, as the API has them; NULL: nothing.
-- keys_left: 1 while tasks of a pool that has no limits by key any more may wait for their keys still: claims take them from there.

ALTER TABLE {p}pools
  ADD COLUMN set_key_limits BLOB NULL;
ALTER TABLE {p}pools
  ADD COLUMN keys_left INTEGER NOT NULL DEFAULT 0;
