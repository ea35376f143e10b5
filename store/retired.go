package store

import (
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// cancelRetired cancels pending tasks of jobs that no configuration has any more, at most limit: no replica
// would claim them. Their jobs' rows are locked, so that a job does not come back meanwhile.
//
// Index: tasks_job for the tasks; all rows of jobs are read.
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
	rows, err := t.openTasks(taskFacts, `{index}{tasks}_job{end} WHERE job>'' AND {in name job} AND state+0<>2 ORDER BY id LIMIT ?`, sqlkit.Keys(names), limit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	now, err := t.Now()
	if err != nil {
		return 0, err
	}
	moves := mapped(rows, func(r openTask) move {
		return move{openTask: r, to: toDone, end: jobs.StateCancelled, reason: ledger.ReasonRetired, code: reason.JobRemoved, failure: r.Error, exit: r.ExitCode}
	})
	return len(rows), t.endPending(now, moves)
}
