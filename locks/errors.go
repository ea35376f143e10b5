package locks

import (
	"errors"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Busy, unknown and lost are three outcomes; no error here matches two of them, except that the
// release of a forced lease matches ErrLost and ErrForced.
var (
	// ErrBusy: somebody else holds the key. It is advice: that may have changed by now.
	ErrBusy = errors.New("lock busy")
	// ErrUnknown: the service was asked and did not answer. The key may be held in our name; it is
	// freed in the background.
	ErrUnknown = errors.New("lock outcome unknown")
	// ErrLost: it was held and is not any more: its session ended, or could not be renewed in time.
	ErrLost = errors.New("lock lost")
	// ErrForced: it alone is not held any more: somebody took it away by [Locker.ForceRelease], or
	// deleted it at the service; or, in mode row of sqllock, the connection that held it has gone.
	ErrForced = errors.New("lock released by force")
	// ErrReleased: its holder released it.
	ErrReleased = errors.New("lock released")
	// ErrUnavailable: nothing was granted, since the service cannot be reached or the Locker is
	// closed.
	ErrUnavailable = errors.New("lock service unavailable")
	// ErrRecovering: nothing was granted; the service is new or was started again, has failed over or has lost data, a
	// short time ago, and waits until every lease that it may not know of has ended.
	ErrRecovering = driver.ErrRecovering
)

var errClosed = errors.New("the Locker is closed")
