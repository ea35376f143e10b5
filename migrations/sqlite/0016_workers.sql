-- min_compatible: 16
-- Workers in other processes take tasks over HTTP; each has a session. A program that knows 0015 alone would take them for replicas with
-- another lock service.
--
-- pool: that the worker takes tasks of; '' for a replica. kinds: of these tasks, a JSON list, "" is for those without a kind; NULL: none.
-- owner: the name of the token that opened the session; '' without access control.

ALTER TABLE {p}sessions
  ADD COLUMN pool TEXT NOT NULL DEFAULT '';
ALTER TABLE {p}sessions
  ADD COLUMN kinds BLOB NULL;
ALTER TABLE {p}sessions
  ADD COLUMN owner TEXT NOT NULL DEFAULT '';
