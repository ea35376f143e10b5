-- min_compatible: 19
-- A new table only: a program that knows 0025 alone goes on working; its runs are expected at no time, and it tells of none that is late.

-- expectations: by when a run of a job is to have started, or ended. A row is written with the run's row in {p}triggers, and deleted once the time has
-- come, by the replica that looks, in the transaction that writes the event of a run that is late.
CREATE TABLE IF NOT EXISTS {p}expectations (
  due_by BIGINT        NOT NULL,
  job    VARBINARY(64) NOT NULL, -- this, at and seq are those of the row in {p}triggers
  at     BIGINT        NOT NULL,
  seq    INT           NOT NULL,
  what   VARBINARY(6)  NOT NULL, -- start, finish
  PRIMARY KEY (due_by, job, at, seq, what)
) ENGINE=InnoDB;
