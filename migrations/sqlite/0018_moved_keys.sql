-- min_compatible: 18
-- When a pool gets an order, or loses it, the places of its tasks are written a thousand at a time. A program that knows 0017 alone would
-- start tasks meanwhile, out of their order.
--
-- keys_moved: while that is under way the id of the task up to which it has come, '' at first; NULL: it is not.

ALTER TABLE {p}pools
  ADD COLUMN keys_moved TEXT NULL;
