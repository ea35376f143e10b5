package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TaskChange is what a pending task is to have in place of what it has. Nil fields leave that as it is.
type TaskChange struct {
	RunAt *time.Time `json:"run_at,omitempty"` // not before; a time that has passed, or the zero time: now
	// ExpiresAt is later than now, and than the task's run_at; the zero time: it expires no more.
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	Priority  *int            `json:"priority,omitempty"` // −100 … 100, larger first
	Payload   json.RawMessage `json:"payload,omitempty"`
	Tags      *[]string       `json:"tags,omitempty"` // all of them

	// MaxAttempts, Timeout and Backoff are the task's own, in place of its pool's; 0: those of the pool again.
	MaxAttempts *int           `json:"max_attempts,omitempty"` // 1 … 1001, and more than the attempts that have counted
	Timeout     *jobs.Duration `json:"timeout,omitempty"`      // 1ms … 366d
	Backoff     *jobs.Duration `json:"backoff,omitempty"`      // 1ms … 366d
}

// None reports whether nothing is to be changed.
func (c TaskChange) None() bool { return reflect.ValueOf(c).IsZero() }

// Encode checks the change by the rules of new tasks, and returns the payload as compact JSON. All problems are reported at once, as
// joined [*jobs.FieldError]s.
func (c TaskChange) Encode() (json.RawMessage, error) {
	task := jobs.NewTask{Pool: "p"}
	if c.RunAt != nil {
		task.RunAt = *c.RunAt
	}
	if c.ExpiresAt != nil {
		task.ExpiresAt = *c.ExpiresAt
	}
	if c.Priority != nil {
		task.Priority = *c.Priority
	}
	if c.Payload != nil {
		task.Payload = c.Payload
	}
	if c.Tags != nil {
		task.Tags = *c.Tags
	}
	if c.MaxAttempts != nil {
		task.MaxAttempts = *c.MaxAttempts
	}
	if c.Timeout != nil {
		task.Timeout = time.Duration(*c.Timeout)
	}
	if c.Backoff != nil {
		task.Backoff = time.Duration(*c.Backoff)
	}
	return task.Encode()
}

// Fits returns a [*jobs.FieldError] if the change cannot be made of this task at that time: it would have expired, would be due only when it
// has, or would have had all its attempts. Attempts that were lost do not count.
func (c TaskChange) Fits(task jobs.Task, now time.Time) error {
	if had := task.Attempt - task.Lost; c.MaxAttempts != nil && *c.MaxAttempts > 0 && *c.MaxAttempts <= had {
		return &jobs.FieldError{Path: "max_attempts", Problem: fmt.Sprintf("must be %d or more: the task has had %d of its attempts, and waits for another one", had+1, had)}
	}
	if c.ExpiresAt != nil {
		if task.ExpiresAt = c.ExpiresAt.Truncate(time.Microsecond); !task.ExpiresAt.IsZero() && !task.ExpiresAt.After(now) {
			return &jobs.FieldError{Path: "expires_at", Problem: "must be later than now, which is " + now.UTC().Format(time.RFC3339Nano) + " in the store"}
		}
	}
	if c.RunAt != nil {
		task.RunAt = c.RunAt.Truncate(time.Microsecond)
	}
	if (c.ExpiresAt != nil || c.RunAt != nil) && task.Attempt == 0 && !task.ExpiresAt.IsZero() && !task.ExpiresAt.After(task.RunAt) {
		if c.ExpiresAt == nil {
			return &jobs.FieldError{Path: "run_at", Problem: "must be earlier than expires_at, which is " + task.ExpiresAt.UTC().Format(time.RFC3339Nano)}
		}
		return &jobs.FieldError{Path: "expires_at", Problem: "must be later than run_at"}
	}
	return nil
}
