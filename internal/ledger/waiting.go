package ledger

import (
	"cmp"
	"time"
)

// lookAgain is how soon a job is looked at again of which a due time waits.
const lookAgain = time.Second

// Wait makes d stop before a late due time that waits for its job's slot (catch-up "all"). It is not decided: the job's cursor
// stops right before it, Waiting is it, and NextAt says when to look again.
func (d *Decision) Wait(at, now time.Time) {
	d.Cursor = at.Add(-time.Microsecond)
	d.Waiting, d.NextAt = at, now.Add(lookAgain)
}

// Undecided is the first due time that a job's row knows to be undecided: the one that waits, or else
// the next one. Zero: there is none.
func Undecided(next, waiting time.Time) time.Time { return cmp.Or(waiting, next) }
