package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
)

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

// Notify says of which events of a job or pool somebody is told, and how. The zero Notify tells
// nobody.
//
// Each event becomes a task of the pool "notifications", whose payload is a [Notification] and which
// Handler runs: it is told at least once, with that pool's retries, and what it does or does not do
// holds up nothing else. A notification that fails is told to nobody.
type Notify struct {
	On      []Event // nil: all; empty: none
	Handler Handler // nil: nobody is told
}

// Wants reports whether somebody is to be told of e.
func (n Notify) Wants(e Event) bool {
	return n.Handler != nil && (n.On == nil || slices.Contains(n.On, e))
}

// Kind is the kind, in the pool "notifications", of what n.Handler is to run. Each definition has its own:
// owner is "job a" or "pool p". Kinds are shown, so none says anything about the handler.
func (n Notify) Kind(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// described is what counts in a definition's hash; nil where nobody ever wanted anything.
func (n Notify) described() any {
	if n.On == nil && n.Handler == nil {
		return nil
	}
	on := Events
	if n.On != nil {
		on = n.On
	}
	return struct {
		On      []Event
		Handler string
	}{slices.Compact(slices.Sorted(slices.Values(on))), identify(n.Handler)}
}

// notifies reports whether somebody is told of anything.
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
