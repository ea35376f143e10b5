package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Event is something that happened to a job or pool, written in the transaction that made it
// happen, until its notification is enqueued, or none is wanted.
type Event struct {
	jobs.Notification        // without Text and Name, and with an ID of its own; ids sort by time
	Seq               int    // of the trigger at ScheduledAt
	Hash              string // of the job's row, or without a job the pool's; "" = retired, or no row
}

// StartEvents are those of tasks that became running: of each whose first attempt it is, if the replica says that somebody is told. An attempt
// that was handed back does not count, so a task may have several; their notification is one, by its idempotency key.
func (a Admission) StartEvents(started []Started) (all []Event) {
	if a.Tells == nil {
		return nil
	}
	for _, s := range started {
		if t := s.Task; t.Attempt == 1 && a.Tells(*t) {
			all = append(all, Event{Seq: t.Seq, Notification: jobs.Notification{
				Event: jobs.EventStarted, Job: t.Job, Pool: t.Pool, ScheduledAt: t.ScheduledAt, Count: 1, TaskID: t.ID, Attempt: t.Attempt, Replica: t.Replica,
			}})
		}
	}
	return all
}

// Route is what becomes of an event.
type Route struct {
	Keep bool          // it is left for another replica
	Task *jobs.NewTask // the notification; nil: none is wanted, and the event is deleted
}

// Notify asks for events to be routed.
type Notify struct {
	After string // id; only later events are looked at
	Limit int    // at most this many are
	// Route must be a pure function of its arguments; now is the database's.
	Route func(now time.Time, e Event) Route
}

// Notified is what a Notify call did.
type Notified struct {
	Tasks   int    // notifications enqueued
	Dropped int    // events without a notification
	Kept    int    // events that were left
	Last    string // id of the last event that was looked at
	More    bool   // there may be later ones
}
