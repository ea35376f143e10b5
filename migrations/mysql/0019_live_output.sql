-- min_compatible: 19
-- What an attempt writes is kept while it runs. A program that knows 0018 alone would leave the chunks of attempts that end there.
--
-- chunks: parts of the outputs of running attempts. They go with the end of the attempt, whose output is in outputs then.
-- spans: which bytes of what the attempt wrote an output has, as in '0+32768 90000+32768'; '' = all, or a program wrote it that did not say.

CREATE TABLE IF NOT EXISTS {p}chunks (
  task_id    VARBINARY(36) NOT NULL,
  token      BIGINT        NOT NULL,
  first_byte BIGINT        NOT NULL, -- how many bytes the attempt wrote before
  data       MEDIUMBLOB    NOT NULL,
  PRIMARY KEY (task_id, token, first_byte)
) ENGINE=InnoDB;
ALTER TABLE {p}outputs
  ADD COLUMN spans VARBINARY(2000) NOT NULL DEFAULT '';
