package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// dueNext is the first due time after t; zero if there is none.
func dueNext(all []history.Every, t time.Time) time.Time {
	var first time.Time
	for _, e := range all {
		if e.Period <= 0 {
			continue
		}
		n := t.UnixNano() - int64(e.Offset)
		k := n / int64(e.Period)
		if n < 0 && n%int64(e.Period) != 0 {
			k--
		}
		at := time.Unix(0, (k+1)*int64(e.Period)+int64(e.Offset)).UTC()
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// isDue reports whether t is a due time.
func isDue(all []history.Every, t time.Time) bool {
	return dueNext(all, t.Add(-1)).Equal(t)
}

// countLimit is more due times than a run can have.
const countLimit = 1 << 20

// dueCount is how many due times lie in [first, last], at most countLimit.
func dueCount(all []history.Every, first, last time.Time) int {
	n := 0
	for at := dueNext(all, first.Add(-1)); !at.IsZero() && !at.After(last) && n < countLimit; at = dueNext(all, at) {
		n++
	}
	return n
}
