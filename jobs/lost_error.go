package jobs

import "time"

// LostError refuses a run of a job, an attempt of which was lost and may still be running somewhere. It is [ErrConflict].
type LostError struct {
	Job   string
	Until time.Time // it must have ended then
	// Force is what forces a run over it, and over no other: the id of its task, of that lost last if there are several, or
	// Until, as RFC 3339, if it is not known which task it was.
	Force  string
	Reason string // whose attempt it is, and what to do
}

func (e *LostError) Error() string { return ErrConflict.Error() + ": " + e.Reason }

func (e *LostError) Unwrap() error { return ErrConflict }
