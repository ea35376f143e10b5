package ledger

import "time"

// lookAgain is how soon a job is looked at again of which a due time waits.
const lookAgain = time.Second

// Wait makes d stop before a late due time that waits for its job's slot (catch-up "all"). It is not decided: the job's cursor
// stops right before it, Waiting is it, and NextAt says when to look again.
func (d *Decision) Wait(at, now time.Time) {
	d.Cursor = at.Add(-time.Microsecond)
	d.Waiting, d.Due, d.NextAt = at, time.Time{}, now.Add(lookAgain)
}

// Undecided is the first due time that a job's row knows to be undecided: the one that waits, or else the next one. Zero: there
// is none. start is when its trigger starts, if the job has jitter and it does not wait; else zero.
//
// A row has in due the due time that starts at next, or zero where they are the same. A program that knows no jitter leaves due as
// it was: then it is behind the cursor, or not before next.
func Undecided(cursor, due, next, waiting time.Time) (at, start time.Time) {
	switch {
	case waiting.Equal(noDueTime):
		return time.Time{}, time.Time{}
	case !waiting.IsZero():
		return waiting, time.Time{}
	case due.After(cursor) && !due.After(next):
		return due, next
	}
	return next, time.Time{}
}
