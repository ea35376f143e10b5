package ledger

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// SuspendedBy is the caller of a suspension that jobs.Job.SuspendAfter asked for.
const SuspendedBy = "suspend_after"

// FailuresInARow adds the ends of runs of a job, in their order, to how many had failed in a row before. If that makes after of them, at is the index of the end that
// did, and why says so for people; what comes behind it does not count. Otherwise why is empty.
func FailuresInARow(before, after int, ends []jobs.State) (n, at int, why string) {
	n = before
	for at, end := range ends {
		switch end {
		case jobs.StateSucceeded:
			n = 0
		case jobs.StateFailed, jobs.StateLost:
			if n++; n >= after {
				return n, at, fmt.Sprintf("%d runs in a row have failed; suspend_after: %d", n, after)
			}
		}
	}
	return n, 0, ""
}
