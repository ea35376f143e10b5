package wire

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TaskChange is what a pending task is to have in place of what it has. Nil fields leave that as it is.
type TaskChange struct {
	RunAt    *time.Time      `json:"run_at,omitempty"`   // not before; a time that has passed, or the zero time: now
	Priority *int            `json:"priority,omitempty"` // −100 … 100, larger first
	Payload  json.RawMessage `json:"payload,omitempty"`
	Tags     *[]string       `json:"tags,omitempty"` // all of them
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
	if c.Priority != nil {
		task.Priority = *c.Priority
	}
	if c.Payload != nil {
		task.Payload = c.Payload
	}
	if c.Tags != nil {
		task.Tags = *c.Tags
	}
	return task.Encode()
}
