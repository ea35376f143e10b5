-- min_compatible: 19
-- What an attempt writes is kept while it runs. A program that knows 0018 alone would leave the chunks of attempts that end there.
--
-- chunks: parts of the outputs of running attempts. They go with the end of the attempt, whose output is in outputs then.
-- spans: which bytes of what the attempt wrote an output has, as in '0+32768 90000+32768'; '' = all, or a program wrote it that did not say.

CREATE TABLE IF NOT EXISTS {p}chunks (
  task_id    TEXT    NOT NULL,
  token      INTEGER NOT NULL,
  first_byte INTEGER NOT NULL, -- how many bytes the attempt wrote before
  data       BLOB    NOT NULL,
  PRIMARY KEY (task_id, token, first_byte)
);
ALTER TABLE {p}outputs
  ADD COLUMN spans TEXT NOT NULL DEFAULT '';
