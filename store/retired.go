package store

import (
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// cancelRetired cancels pending tasks of jobs that no configuration has any more, at most limit: no replica
// would claim them. Their jobs' rows are locked, so that a job does not come back meanwhile.
//
// Index: tasks_job; all rows of jobs are read.
func cancelRetired(t *tx, limit int) (int, error) {
	names, err := column[string](t.rows(`SELECT name FROM {jobs} WHERE hash='' AND EXISTS
		(SELECT 1 FROM {tasks}{index}{tasks}_job{end} WHERE job>'' AND job={jobs}.name AND state+0<>2) ORDER BY name LIMIT ?`, limit))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	names, err = column[string](t.rows(`SELECT name FROM {jobs} WHERE {in name name} AND hash='' ORDER BY name{for_update}`, sqlkit.Keys(names)))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	return t.endRetired(names, limit)
}

// endRetired cancels pending tasks of jobs that no configuration has any more, at most limit. The caller has locked their rows.
//
// Index: tasks_job.
func (t *tx) endRetired(names []string, limit int) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	rows, err := t.openTasks(taskFacts, `{index}{tasks}_job{end} WHERE job>'' AND {in name job} AND state+0<>2 ORDER BY id LIMIT ?`, sqlkit.Keys(names), limit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	now, err := t.Now()
	if err != nil {
		return 0, err
	}
	moves := mapped(rows, func(r openTask) move {
		return withdrawn(r, ledger.ReasonRetired, reason.JobRemoved)
	})
	return len(rows), t.endPending(now, moves)
}
