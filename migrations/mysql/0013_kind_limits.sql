-- min_compatible: 13
-- Pools get limits by kind. A program that knows 0012 alone would start tasks beyond them.
--
-- kind_limits: JSON of the limits of each kind; NULL: none. What the limits of a kind have started, and what waits for them, is in keys and
-- key_waits; there the key of a kind is its name behind a byte 1, which no key of a task has.

ALTER TABLE {p}pools
  ADD COLUMN kind_limits MEDIUMBLOB NULL;
