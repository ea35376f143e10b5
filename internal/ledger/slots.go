package ledger

import (
	"cmp"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Ending is the end of an open task that another run of its job takes the place of, or that may not start any more. A pending task ends as cancelled at once. The owner of
// a running one is asked to stop it, unless it was asked before: its slot is taken until it has ended.
type Ending struct {
	Task   string // id, of JobState.Open or JobState.Queued
	Code   reason.Code
	Reason string
}

// replacedBy begins the reason of each task that was replaced. What users cancel has another one.
const replacedBy = "replaced by "

// Replaced is the end of a task in whose place a trigger comes. run names that one.
func Replaced(task, run string) Ending {
	return Ending{Task: task, Code: reason.Replaced, Reason: replacedBy + run}
}

// CancelCode is the code of a cancellation that was asked for with this reason.
func CancelCode(why string) reason.Code {
	if strings.HasPrefix(why, replacedBy) {
		return reason.Replaced
	}
	return reason.Cancelled
}

// InDueOrder compares two tasks of one job by the time for which they were made. A task that a user had run again was made for now, whatever its first run was
// due at.
func InDueOrder(a, b jobs.Task) int {
	return cmp.Or(dueOf(a).Compare(dueOf(b)), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID))
}

func dueOf(t jobs.Task) time.Time {
	if t.RetryOf != "" {
		return t.CreatedAt
	}
	return t.ScheduledAt
}

// LostSlots is how many slots lost attempts of the job may have, beside those of Open. If the job is busy with one that is not known, it is slots: it may be any
// number.
func (s JobState) LostSlots(now time.Time, slots int) int {
	if !s.BusyUntil.After(now) {
		return 0
	}
	known := false
	for _, l := range s.Lost {
		known = known || !l.Until.Before(s.BusyUntil)
	}
	for _, t := range s.Open { // it runs again when the attempt must have ended, and has its slot meanwhile
		known = known || t.ReasonCode == reason.ReplicaDied && t.State == jobs.StatePending && !t.RunAt.Before(s.BusyUntil)
	}
	if !known {
		return max(slots, len(s.Lost))
	}
	return len(s.Lost)
}

// noDueTime stands for the next due time of a job that waits for a slot, and has none.
var noDueTime = time.UnixMicro(-1).UTC()

// Queues makes the job be looked at soon, since a run of it waits for a slot. Waiting is the next due time then.
func (d *Decision) Queues(now time.Time) {
	d.NextAt, d.Waiting = QueuedNext(d.Due, d.NextAt, now)
	d.Due = time.Time{}
}

// QueuedNext is when to look next at a job of which a run waits for a slot, and what its row has as the due time that waits. due and start are those of a
// [Decision]: its Due and NextAt.
func QueuedNext(due, start, now time.Time) (next, waiting time.Time) {
	next, waiting = now.Add(lookAgain), cmp.Or(due, start, noDueTime)
	if !start.IsZero() && start.Before(next) {
		next = start
	}
	return next, waiting
}
