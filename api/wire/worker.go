package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Claim is the answer to a worker's claim.
type Claim struct {
	Session string        `json:"session"`
	Worker  string        `json:"worker"` // its id, which tasks have as their replica
	TTL     string        `json:"ttl"`    // a Go duration: without a call for so long the session may expire, and its tasks run elsewhere
	Beat    float64       `json:"beat"`   // how often to call at least, in seconds
	Items   []ClaimedTask `json:"items"`
}

// ClaimedTask is a task that a worker has claimed. In JSON it is the task's object with more keys.
type ClaimedTask struct {
	jobs.Task
	Deadline       time.Time `json:"deadline"`        // the attempt times out then
	IdempotencyKey string    `json:"idempotency_key"` // the same over all attempts and retries
}

// MarshalJSON adds the keys to the task's object.
func (t ClaimedTask) MarshalJSON() ([]byte, error) {
	task, err := json.Marshal(t.Task)
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(struct {
		Deadline       time.Time `json:"deadline"`
		IdempotencyKey string    `json:"idempotency_key"`
	}{t.Deadline, t.IdempotencyKey})
	return fmt.Appendf(task[:len(task)-1], ",%s", more[1:]), err
}

// Heartbeat is the answer to a heartbeat of a worker's attempt.
type Heartbeat struct {
	Deadline time.Time `json:"deadline"`
	Cancel   bool      `json:"cancel"` // stop the work, and fail the attempt: it ends as cancelled
	Reason   string    `json:"reason,omitempty"`
}

// Worker is a process that takes tasks over HTTP.
type Worker struct {
	ID       string    `json:"id"`
	State    string    `json:"state"` // "live", or "dead": its tasks are about to run elsewhere
	Pool     string    `json:"pool"`
	Kinds    []string  `json:"kinds"`             // "" is for tasks without a kind
	Token    string    `json:"token,omitempty"`   // the name of the token that opened its session
	Running  int       `json:"running"`           // its running tasks
	TaskID   string    `json:"task_id,omitempty"` // of them, the one that was enqueued first
	TTL      string    `json:"ttl"`
	JoinedAt time.Time `json:"joined_at,omitzero"`
	SeenAt   time.Time `json:"seen_at,omitzero"`
}
