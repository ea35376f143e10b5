package jobs

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

// Variable is one thing that a handler outside of this process is told about its attempt.
type Variable struct {
	Env    string // name in a command's environment
	Header string // name in a request
	Value  string // may be empty
}

// Identity is what a command gets as environment and a request as headers: always the same names
// in the same order.
func (t Task) Identity() []Variable {
	return []Variable{
		{"LOCKSTEP_JOB", "Lockstep-Job", t.Job},
		{"LOCKSTEP_POOL", "Lockstep-Pool", t.Pool},
		{"LOCKSTEP_KIND", "Lockstep-Kind", t.Kind},
		{"LOCKSTEP_TASK_ID", "Lockstep-Task-Id", t.ID},
		{"LOCKSTEP_SCHEDULED_AT", "Lockstep-Scheduled-At", rfc3339(t.ScheduledAt)},
		{"LOCKSTEP_ATTEMPT", "Lockstep-Attempt", strconv.Itoa(t.Attempt)},
		{"LOCKSTEP_FENCING_TOKEN", "Lockstep-Fencing-Token", strconv.FormatInt(t.Token, 10)},
		{"LOCKSTEP_IDEMPOTENCY_KEY", "Idempotency-Key", t.IdempotencyKey},
		{"LOCKSTEP_REPLICA", "Lockstep-Replica", t.Replica},
		{"TRACEPARENT", "Traceparent", t.traceparent()},
	}
}

// traceparent (W3C Trace Context) has one trace for all attempts of a task and one span for each.
// Both come from the task's random id, so nothing has to be kept.
func (t Task) traceparent() string {
	trace := sha256.Sum256([]byte(t.ID))
	span := sha256.Sum256(fmt.Appendf(nil, "%s/%d", t.ID, t.Attempt))
	return fmt.Sprintf("00-%x-%x-01", trace[:16], span[:8])
}
