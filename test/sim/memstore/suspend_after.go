package memstore

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// countRun counts the end of a run of a job, and suspends the job if so many failed in a row as it allows.
func (t *tx) countRun(now time.Time, r Done, end jobs.State) error {
	row, ofJob := t.jobs.rows[r.Job]
	if !ofJob || row.SuspendAfter == 0 || row.Suspension().At(t.now()).Holds(false) {
		return nil
	}
	n, _, why := ledger.FailuresInARow(row.Failures, row.SuspendAfter, []jobs.State{end})
	if n == row.Failures {
		return nil
	}
	if row.Failures = n; why != "" {
		row.Suspended, row.SuspendedBy, row.SuspendReason, row.Until = new(true), ledger.SuspendedBy, why, 0
		id, err := t.s.newID()
		if err != nil {
			return err
		}
		put(t, &t.events, event{
			ID: id, Event: string(jobs.EventSuspended), Job: r.Job, Pool: r.Pool, TriggerAt: r.TriggerAt, TriggerSeq: r.TriggerSeq, TaskID: r.ID, Attempt: r.Attempt, Replica: r.Replica,
			Reason: why, HappenedAt: micros(now),
		})
	}
	put(t, &t.jobs, row)
	return nil
}
