package jobs

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound: no job, pool, task or trigger with that name or id.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the thing is in a state that does not allow it, or an idempotency key was used
	// before with another body. The message says which.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: bad input. The message names the field.
	ErrInvalid = errors.New("invalid")
	// ErrNoHandler: no live replica has a handler for the task. A [*KindError] says what it has.
	ErrNoHandler = errors.New("no handler")
	// ErrUnavailable: the store cannot be reached, or its answer did not come. Nothing is known
	// about what was asked.
	ErrUnavailable = errors.New("store unavailable")
	// ErrNotStarted ends an attempt whose handler has certainly not begun its work, because it was too
	// late for it: the task waits again as if nobody had taken it.
	ErrNotStarted = errors.New("not started")
	// ErrNoRoom is ErrNotStarted because this process or this machine had none left of what a start
	// takes: descriptors, processes or memory. The replica says so, and takes no more work of the pool
	// for a moment; others may.
	ErrNoRoom = fmt.Errorf("%w: no room", ErrNotStarted)
	// ErrLost ends an attempt of which nobody knows how far it came: what did the work is gone, and it
	// was not the work's own doing. The attempt is lost, and on_lost decides.
	ErrLost = errors.New("lost")
)
