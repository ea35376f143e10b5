-- min_compatible: 19
-- New columns with a default: a program that knows 0028 alone goes on working. Where it changes the payload of a pending task, lists have the size that
-- the payload had before, until the task has ended.
--
-- payload_size: the bytes of a payload above 1 KiB, so that lists need not read it. 0: it is shorter, or of a program before this.

ALTER TABLE {p}tasks
  ADD COLUMN payload_size INT NOT NULL DEFAULT 0;
ALTER TABLE {p}done
  ADD COLUMN payload_size INT NOT NULL DEFAULT 0;
