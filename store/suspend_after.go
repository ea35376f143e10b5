package store

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// counting are the locked rows of jobs that are suspended when their runs fail in a row, by name.
type counting map[string]jobModel

// jobsThatCount are the jobs of results that may count.
func jobsThatCount(results []ledger.Result) (names []string) {
	for _, r := range results {
		if r.SuspendAfter && r.Task != nil && !r.Verdict.Undone() {
			names = append(names, r.Task.Job)
		}
	}
	return names
}

// countRuns locks the rows of jobs, so that the ends of their runs are counted one transaction after the other, by whatever replicas. It must come before the rows of tasks are
// locked. Without names it sends nothing.
//
// Index: primary key.
func (t *tx) countRuns(names []string) (counting, error) {
	rows := counting{}
	now := time.Time{} // read where an override has an end
	err := each(t.rows("SELECT name, suspended, suspended_until, suspend_after, failures FROM {jobs}{by_key} WHERE {in name name} ORDER BY name{for_update}", sqlkit.Keys(sqlkit.Distinct(names))),
		func(m *jobModel) {
			if m.SuspendAfter > 0 && (!m.suspension().Holds(false) || m.SuspendedUntil > 0) { // a job that is suspended counts nothing
				rows[m.Name] = *m
			}
		})
	for name, m := range rows {
		if err == nil && m.SuspendedUntil > 0 && now.IsZero() {
			now, err = t.Now()
		}
		if m.suspension().At(now).Holds(false) {
			delete(rows, name)
		}
	}
	return rows, err
}

// runEnds are the moves that end a task of a job, in their order.
func runEnds(moves []move) []move {
	return those(moves, func(m move) bool { return m.Job != "" && m.to == toDone })
}

// lateEnds are those of late results that count: what was lost counted as a failure before.
func lateEnds(late []move) []move {
	return those(late, func(m move) bool { return m.Job != "" && m.end == jobs.StateSucceeded })
}

// suspendAfter counts the ends of runs, and suspends the jobs of which too many failed in a row, with an event for each.
//
// Index: primary key.
func (t *tx) suspendAfter(now time.Time, rows counting, ends []move) error {
	if len(rows) == 0 {
		return nil
	}
	var counted, suspended [][]any
	var events []ledger.Event
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		of := those(ends, func(m move) bool { return m.Job == name })
		n, at, why := ledger.FailuresInARow(row.Failures, row.SuspendAfter, mapped(of, func(m move) jobs.State { return m.end }))
		switch {
		case why != "":
			suspended = append(suspended, []any{n, why, name})
			m := of[at]
			events = append(events, ledger.Event{Seq: m.Seq, Notification: jobs.Notification{
				Event: jobs.EventSuspended, Job: name, Pool: m.Pool, ScheduledAt: m.ScheduledAt, TaskID: m.ID, Attempt: m.Attempt, Replica: m.Replica, Reason: why,
			}})
		case n != row.Failures:
			counted = append(counted, []any{n, name})
		}
	}
	if _, err := t.Exec("UPDATE {each}{jobs}{by_key} SET failures={int failures} WHERE {in name name}", sqlkit.Many(counted)); err != nil {
		return err
	}
	n, err := t.Exec("UPDATE {each}{jobs}{by_key} SET suspended=1, suspended_by='"+ledger.SuspendedBy+"', failures={int failures}, suspend_reason={text why}, suspended_until=0 WHERE (COALESCE(suspended, 0)=0 OR suspended_until>0) AND {in name name}",
		sqlkit.Many(suspended))
	if err == nil && n != int64(len(suspended)) {
		err = sqlkit.ErrMoved
	}
	if err != nil {
		return err
	}
	return t.keepEvents(now, events)
}
