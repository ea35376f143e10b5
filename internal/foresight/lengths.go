package foresight

import (
	"slices"
	"time"
)

// Lengths says how long runs took: half of them typical at most, nine of ten long. Both are one of the runs' own; zero if there are none. It sorts
// the runs.
func Lengths(runs []time.Duration) (typical, long time.Duration) {
	if len(runs) == 0 {
		return 0, 0
	}
	slices.Sort(runs)
	rank := func(percent int) time.Duration { return runs[(len(runs)*percent+99)/100-1] }
	return rank(50), rank(90)
}
