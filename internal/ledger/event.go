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
