-- min_compatible: 19
-- A program that knows 0024 alone starts work also while everything is paused.
--
-- pause has one row, with id 0, while everything is paused: said is who paused it, when, until when and why, as JSON.

CREATE TABLE IF NOT EXISTS {p}pause (
  id   INTEGER NOT NULL PRIMARY KEY,
  said BLOB    NOT NULL
);
