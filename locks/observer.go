package locks

import (
	"errors"
	"time"
)

// Observer receives the calls of a Locker to its service; backend is its Caps().Name. The methods are
// called from many goroutines, must return quickly, and must not call the Locker. A
// *metrics.Metrics is one.
type Observer interface {
	// Asked is called after each call for keys. Joining a hold makes no call.
	Asked(backend string, a Asked)
	// Renewed is called after each renewal of a session; err matches ErrLost if it had expired.
	Renewed(backend string, took time.Duration, err error)
	// Lost is called when a session with that many keys ended before it was closed (ErrLost), and when
	// one key was evicted (ErrForced).
	Lost(backend string, keys int, cause error)
	// Waiting is called when a call of Acquire begins to wait for a key, and Waited when it has the key, or gives up.
	Waiting(backend string)
	Waited(backend string, took time.Duration, got bool)
	// Held is called when a key was granted, and Freed when it is not held any more, for whatever reason. Joining a hold does
	// not call them.
	Held(backend string)
	Freed(backend string, held time.Duration)
}

// Asked has the number of keys of one call by outcome, and its duration, including the opening of a
// session.
type Asked struct {
	Granted     int
	Busy        int
	Queued      int // a place in the queue of the service, by Acquire
	Unknown     int // the answer was lost
	Unavailable int // nothing was granted: the service is unavailable, or recovering
	Took        time.Duration
}

// unobserved is an Observer that discards everything.
type unobserved struct{}

func (unobserved) Asked(string, Asked)                  {}
func (unobserved) Renewed(string, time.Duration, error) {}
func (unobserved) Lost(string, int, error)              {}
func (unobserved) Waiting(string)                       {}
func (unobserved) Waited(string, time.Duration, bool)   {}
func (unobserved) Held(string)                          {}
func (unobserved) Freed(string, time.Duration)          {}

// asked counts the attempts that rest names.
func asked(attempts []Attempt, rest []int, err error, took time.Duration) Asked {
	a := Asked{Took: took}
	for _, i := range rest {
		switch got := attempts[i]; {
		case err != nil:
			a.Unavailable++
		case got.Lease != nil:
			a.Granted++
		case errors.Is(got.Err, ErrBusy):
			a.Busy++
		case errors.Is(got.Err, ErrUnknown):
			a.Unknown++
		default:
			a.Unavailable++
		}
	}
	return a
}
