package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Expired reports whether a pending task may not start any more: no attempt of it has started by its ExpiresAt. An attempt that was handed back
// or snoozed has not.
func Expired(t jobs.Task, now time.Time) bool {
	return !t.ExpiresAt.IsZero() && t.Attempt == 0 && !t.ExpiresAt.After(now)
}

// EndOfExpired is the reason of a task that has expired, with what it had waited for if that is known.
func EndOfExpired(t jobs.Task) string {
	why := "expired at " + t.ExpiresAt.UTC().Format(time.RFC3339Nano) + ", before an attempt started"
	if t.Reason != "" {
		why += "; " + t.Reason
	}
	return why
}
