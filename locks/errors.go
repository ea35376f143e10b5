package locks

import (
	"errors"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Busy, unknown and lost are three outcomes; no error here matches two of them, except that the
// release of a forced lease matches ErrLost and ErrForced.
var (
	// ErrBusy: another owner holds the key, or waits for it and comes first. It is advice: that may have changed by now.
	ErrBusy = errors.New("lock busy")
	// ErrUnknown: the service was asked and did not answer. The key may be held by this session; it is
	// released in the background.
	ErrUnknown = errors.New("lock outcome unknown")
	// ErrLost: it is no longer held: its session expired, or could not be renewed in time.
	ErrLost = errors.New("lock lost")
	// ErrForced: this key alone is no longer held: [Locker.ForceRelease] evicted it, which the next renewal says; or it was
	// deleted at the service by hand, which is said once a renewal has looked at it, 16 keys each; or, in mode row of sqllock,
	// the connection that held it was closed.
	ErrForced = errors.New("lock released by force")
	// ErrReleased: its holder released it.
	ErrReleased = errors.New("lock released")
	// ErrUnavailable: nothing was granted, since the service cannot be reached or the Locker is
	// closed.
	ErrUnavailable = errors.New("lock service unavailable")
	// ErrRecovering: nothing was granted; the service is new, was restarted, failed over or lost data a
	// short time ago, and waits until every lease that it may have forgotten has expired.
	ErrRecovering = driver.ErrRecovering
)

var errClosed = errors.New("the Locker is closed")
