package jobs

// Event is something that somebody may want to be told of, see [Notify].
type Event string

const (
	EventFailed    Event = "failed"    // a task ended as failed: its last attempt did, no further one is due
	EventMissed    Event = "missed"    // due times of a job that nobody could decide in time
	EventLost      Event = "lost"      // a task ended as lost: its replica died, and it does not run again
	EventRecovered Event = "recovered" // the first success after any of these
)

// Events are all of them.
var Events = []Event{EventFailed, EventMissed, EventLost, EventRecovered}

// NotificationsPool is the pool whose tasks tell somebody of events. It exists where something
// notifies, and takes no other tasks; a Set may define it to change its limits.
const NotificationsPool = "notifications"
