package jobs

import (
	"strconv"
	"time"
)

// IdempotencyKeyIn is the idempotency key that t's handler gets: the same over all attempts and retries, and
// another for every other trigger or task.
//
// For a task born of a trigger it is "job@at", at in RFC 3339 (UTC, with a fraction only if there
// is one), and "/seq" if seq > 0. Else it is the id of the first task of the chain of retries. The
// set's name, if it has one, stands in front with a "/".
func (t Task) IdempotencyKeyIn(setName string) string {
	var key string
	switch {
	case t.Job != "" && !t.ScheduledAt.IsZero():
		key = t.Job + "@" + rfc3339(t.ScheduledAt)
		if t.Seq > 0 {
			key += "/" + strconv.Itoa(t.Seq)
		}
	case t.RetryOf != "":
		key = t.RetryOf
	default:
		key = t.ID
	}
	if setName != "" {
		key = setName + "/" + key
	}
	return key
}

// rfc3339 is t in UTC; empty for the zero time.
func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
