package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// LateAfter is how long after its time an expectation is looked at: a start or an end that came in time may be in a transaction that is not over yet.
const LateAfter = time.Second

// Expected is what is expected of a run.
type Expected string

const (
	ToStart  Expected = "start"
	ToFinish Expected = "finish"
)

// Expectation is something that is expected of a run by a time.
type Expectation struct {
	What Expected
	By   time.Time
}

// Lateness is what a LateRuns call did.
type Lateness struct {
	Events []Event // that were written, without ids
	More   bool    // there may be further expectations whose time has come
}

// Expectations are those of the opening.
func (o Opening) Expectations() (all []Expectation) {
	if !o.StartBy.IsZero() {
		all = append(all, Expectation{ToStart, o.StartBy})
	}
	if !o.FinishBy.IsZero() {
		all = append(all, Expectation{ToFinish, o.FinishBy})
	}
	return all
}

// LateEvent is the event of a run that has not met an expectation whose time has come; false if it has, or was decided not to run.
func LateEvent(run jobs.Trigger, e Expectation) (Event, bool) {
	at, done, code := run.StartedAt, "started", reason.StartLate
	if e.What == ToFinish {
		at, done, code = run.FinishedAt, "finished", reason.FinishLate
	}
	why := "not " + done + " by " + e.By.UTC().Format(time.RFC3339)
	switch {
	case !at.IsZero() && !at.After(e.By):
		return Event{}, false
	case run.Outcome == jobs.Skipped || run.Outcome == jobs.Missed:
		return Event{}, false
	case !at.IsZero():
		form := "2006-01-02T15:04:05.999Z07:00"
		if at.Sub(e.By) < time.Millisecond {
			form = time.RFC3339Nano
		}
		why = done + " at " + at.UTC().Format(form) + ", not by " + e.By.UTC().Format(form)
	}
	return Event{Seq: run.Seq, Notification: jobs.Notification{
		Event: jobs.EventLate, Job: run.Job, ScheduledAt: run.At, Count: 1, TaskID: run.TaskID, Replica: run.Replica, Reason: why, ReasonCode: code,
	}}, true
}
