// Package identity has the variables that identify an attempt for handlers outside of this process.
package identity

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Variable is one of them.
type Variable struct {
	Env    string // name in a command's environment
	Header string // name in a request
	Value  string // may be empty
}

// Of returns the environment variables of a command and the headers of a request: always the same names in the
// same order.
func Of(t jobs.Task) []Variable {
	return []Variable{
		{"LOCKSTEP_JOB", "Lockstep-Job", t.Job},
		{"LOCKSTEP_POOL", "Lockstep-Pool", t.Pool},
		{"LOCKSTEP_KIND", "Lockstep-Kind", t.Kind},
		{"LOCKSTEP_KEY", "Lockstep-Key", t.Key},
		{"LOCKSTEP_TASK_ID", "Lockstep-Task-Id", t.ID},
		{"LOCKSTEP_SCHEDULED_AT", "Lockstep-Scheduled-At", rfc3339(t.ScheduledAt)},
		{"LOCKSTEP_ATTEMPT", "Lockstep-Attempt", strconv.Itoa(t.Attempt)},
		{"LOCKSTEP_FENCING_TOKEN", "Lockstep-Fencing-Token", strconv.FormatInt(t.Token, 10)},
		{"LOCKSTEP_IDEMPOTENCY_KEY", "Idempotency-Key", t.IdempotencyKey},
		{"LOCKSTEP_REPLICA", "Lockstep-Replica", t.Replica},
		{"LOCKSTEP_LOCK_TOKENS", "Lockstep-Lock-Tokens", lockTokens(t)},
		{"TRACEPARENT", "Traceparent", traceparent(t)},
	}
}

// traceparent (W3C Trace Context) has one trace for all attempts of a task and one span for each. Both come
// from the task's random id, so nothing is stored.
func traceparent(t jobs.Task) string {
	trace := sha256.Sum256([]byte(t.ID))
	span := sha256.Sum256(fmt.Appendf(nil, "%s/%d", t.ID, t.Attempt))
	return fmt.Sprintf("00-%x-%x-01", trace[:16], span[:8])
}

// lockTokens is a JSON object with the token of each lock by its key; empty without locks.
func lockTokens(t jobs.Task) string {
	if len(t.Locks) == 0 {
		return ""
	}
	tokens := map[string]int64{}
	for _, l := range t.Locks {
		tokens[l.Key] = l.Token
	}
	text, _ := json.Marshal(tokens) // it always encodes
	return string(text)
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
