-- min_compatible: 15
-- Tasks have a progress while they run, and a result when they have ended. A program that knows 0014 alone would show the progress of an
-- attempt beside the next one, and leave the results of tasks that it deletes.
--
-- progress: of the running attempt, '' = none; else millionths, a blank, and a text. A row that is not running has none.

ALTER TABLE {p}tasks
  ADD COLUMN progress VARBINARY(208) NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS {p}results (
  task_id VARBINARY(36) NOT NULL,
  result  MEDIUMBLOB    NOT NULL, -- JSON
  PRIMARY KEY (task_id)
) ENGINE=InnoDB;
