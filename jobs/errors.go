package jobs

import "errors"

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
)
