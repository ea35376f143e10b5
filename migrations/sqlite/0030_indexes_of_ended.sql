-- min_compatible: 19
-- Three indexes of the ledger have the rows alone that are looked for by them: no list asks for those without an outcome or a result, which all
-- rows have first. A program that knows 0029 alone finds the same rows, by the other indexes.

DROP INDEX IF EXISTS {p}triggers_outcome;
CREATE INDEX {p}triggers_outcome ON {p}triggers (outcome, at, job, seq) WHERE outcome > '';
DROP INDEX IF EXISTS {p}triggers_ended;
CREATE INDEX {p}triggers_ended ON {p}triggers (result, at, job, seq) WHERE result > '';
DROP INDEX IF EXISTS {p}triggers_result;
CREATE INDEX {p}triggers_result ON {p}triggers (job, result, at) WHERE result > '';
