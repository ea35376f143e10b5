package locks

import (
	"errors"
	"time"
)

// Metrics is told about a Locker's calls to its service; backend is its Caps().Name. The methods are
// called from many goroutines, must return quickly, and must not call the Locker. Package metrics
// has one for Prometheus.
type Metrics interface {
	// Asked is told of each call that asked for keys. Nobody is asked for what joins a hold of the
	// same owner.
	Asked(backend string, a Asked)
	// Renewed is told of each renewal of a session; err matches ErrLost when it was over.
	Renewed(backend string, took time.Duration, err error)
	// Lost is told when a session with that many keys ended before it was closed (ErrLost), and when
	// one key was taken away (ErrForced).
	Lost(backend string, keys int, cause error)
}

// Asked is how many keys of one call ended how, and how long it took, the opening of a session
// included.
type Asked struct {
	Granted     int
	Busy        int
	Unknown     int // the answer was lost
	Unavailable int // nothing was granted: the service is away, or recovering
	Took        time.Duration
}

// unmeasured is Metrics that nobody reads.
type unmeasured struct{}

func (unmeasured) Asked(string, Asked)                  {}
func (unmeasured) Renewed(string, time.Duration, error) {}
func (unmeasured) Lost(string, int, error)              {}

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
