package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
)

// Event is what a notification can be sent of, see [Notify].
type Event string

const (
	EventFailed    Event = "failed"    // a task ended as failed: its last attempt did, no further one is due
	EventMissed    Event = "missed"    // due times of a job that could not be decided in time
	EventLost      Event = "lost"      // a task ended as lost: its replica died, and it does not run again
	EventRecovered Event = "recovered" // the first success after any of these
	EventStarted   Event = "started"   // the first attempt of a task starts; it has to be named in Notify.On
	EventSucceeded Event = "succeeded" // a task ended as succeeded; it has to be named in Notify.On
	EventLate      Event = "late"      // a run of a job has not started, or not ended, when it was expected to, see [Expect]
	EventPaused    Event = "paused"    // a pool was paused, since too many of its attempts failed, see [PauseOn]; not of jobs
	EventSuspended Event = "suspended" // a job was suspended, since as many of its runs failed in a row as its SuspendAfter says; not of pools
)

// askedFor are the events that a Notify without On does not mean: of what goes well nobody is told without asking.
var askedFor = []Event{EventLate, EventStarted, EventSucceeded}

var events = []Event{EventFailed, EventMissed, EventLost, EventRecovered} // beside EventPaused and EventSuspended

// Notify says for which events of a job or pool a notification is sent, and how. The zero Notify sends
// none.
//
// Each event becomes a task of the pool "notifications", whose payload is a [Notification] and which
// Handler runs: it is sent at least once, with that pool's retries, and its failure
// delays nothing else. Of a notification that fails no notification is sent.
type Notify struct {
	On      []Event // nil: all but those that have to be named: EventStarted, EventSucceeded and EventLate; empty: none
	Handler Handler // nil: no notification is sent
}

// Wants reports whether a notification is sent for e.
func (n Notify) Wants(e Event) bool {
	return n.Handler != nil && (n.On == nil && !slices.Contains(askedFor, e) || slices.Contains(n.On, e))
}

// EventsOfJobs are those of a job for which a notification is sent.
func (n Notify) EventsOfJobs() []Event {
	var all []Event
	for _, e := range []Event{EventFailed, EventMissed, EventLost, EventRecovered, EventSuspended, EventLate, EventStarted, EventSucceeded} {
		if n.Wants(e) {
			all = append(all, e)
		}
	}
	return all
}

// Kind is the kind, in the pool "notifications", of what n.Handler is to run. Each definition has its own:
// owner is "job a" or "pool p". Kinds are shown, so none says anything about the handler.
func (n Notify) Kind(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// described is what counts in a definition's hash; nil where neither events nor a handler are given.
func (n Notify) described() any {
	if n.On == nil && n.Handler == nil {
		return nil
	}
	on := events
	if n.On != nil {
		on = n.On
	}
	return struct {
		On      []Event
		Handler string
	}{slices.Compact(slices.Sorted(slices.Values(on))), identify(n.Handler)}
}

// notifies reports whether any job or pool sends notifications.
func (s Set) notifies() bool {
	for _, n := range s.notify() {
		if n.Handler != nil {
			return true
		}
	}
	return false
}

// notify is what all jobs and pools say, with whose it is.
func (s Set) notify() iter.Seq2[string, Notify] {
	return func(yield func(string, Notify) bool) {
		for name, job := range s.Jobs {
			if !yield("job "+name, job.Notify) {
				return
			}
		}
		for name, pool := range s.Pools {
			if !yield("pool "+name, pool.Notify) {
				return
			}
		}
	}
}

// Notifiers are the handlers of the tasks in the pool "notifications", by kind.
func (s Set) Notifiers() map[string]Handler {
	all := map[string]Handler{}
	for owner, n := range s.notify() {
		if n.Handler != nil {
			all[n.Kind(owner)] = n.Handler
		}
	}
	return all
}
