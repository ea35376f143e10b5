package ledger

import "time"

// A late due time that waits for its job's slot (catch-up "all") is not decided: the job's cursor
// stops right before it, and next_at says when to look again. Due times are whole seconds, and a
// time to look again is not: so whoever reads the row knows what waits, without the schedule.

// lookAgain is how soon.
const lookAgain = time.Second

// resolution is that of the times in a row.
const resolution = time.Microsecond

// Wait makes d stop before a due time that has to wait.
func (d *Decision) Wait(at, now time.Time) {
	d.Cursor = at.Add(-resolution)
	d.NextAt = now.Add(lookAgain).Truncate(resolution)
	if whole(d.NextAt) {
		d.NextAt = d.NextAt.Add(resolution)
	}
}

// Undecided is the first due time that a job's row knows to be undecided: the one that waits, or else
// the next one. Zero: there is none.
func Undecided(cursor, next time.Time) time.Time {
	if at := cursor.Add(resolution); !next.IsZero() && !whole(next) && whole(at) {
		return at
	}
	return next
}

func whole(t time.Time) bool { return t.Truncate(time.Second).Equal(t) }
