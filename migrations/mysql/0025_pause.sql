-- min_compatible: 19
-- A program that knows 0024 alone starts work also while everything is paused.
--
-- pause has one row, with id 0, while everything is paused: said is who paused it, when, until when and why, as JSON.

CREATE TABLE IF NOT EXISTS {p}pause (
  id   TINYINT         NOT NULL PRIMARY KEY,
  said VARBINARY(2048) NOT NULL
) ENGINE=InnoDB;
