// Package abort holds what a handler that starts something outside of this process says of an attempt beside success and failure.
// An attempt that ends so has used up none of its task's retries.
package abort

import (
	"errors"
	"fmt"
)

var (
	// ErrNotStarted ends an attempt whose handler has certainly not begun its work, because it was too late for it: the task
	// waits again as if it had not been claimed.
	ErrNotStarted = errors.New("not started")
	// ErrNoRoom is ErrNotStarted because this process or this machine had none left of what a start takes: descriptors,
	// processes or memory. The replica logs it, and claims no more work of the pool for a moment; others may.
	ErrNoRoom = fmt.Errorf("%w: no room", ErrNotStarted)
	// ErrLost ends an attempt whose progress is unknown: what did the work is gone, and its own work did not end it. The
	// attempt is lost, and on_lost decides.
	ErrLost = errors.New("lost")
)
