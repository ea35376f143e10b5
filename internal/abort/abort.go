// Package abort has the errors of a handler that starts something outside of this process, beside success and
// failure. An attempt that ends so uses none of its task's retries.
package abort

import (
	"errors"
	"fmt"
)

var (
	// ErrNotStarted ends an attempt whose handler has certainly not begun its work, because it was too late:
	// the task is pending again as if it had not been claimed.
	ErrNotStarted = errors.New("not started")
	// ErrNoRoom is ErrNotStarted because this process or this machine lacks descriptors, processes or memory
	// for a start. The replica logs it, and claims no more tasks of the pool for a moment.
	ErrNoRoom = fmt.Errorf("%w: no room", ErrNotStarted)
	// ErrLost ends an attempt with an unknown outcome: the process that did the work is gone. The attempt is
	// lost, and on_lost decides.
	ErrLost = errors.New("lost")
	// ErrOverdue is beside ErrLost where the work was ended since its deadline had come and was not moved.
	ErrOverdue = errors.New("its deadline passed")
)
