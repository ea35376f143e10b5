package jobs

import (
	"encoding/json"
	"time"
)

// State is where a task is. Terminal states never change, but for one case: the own late result
// of a lost attempt replaces StateLost once.
type State string

const (
	StatePending   State = "pending" // waits for its time, a worker, or the next attempt
	StateRunning   State = "running"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	StateLost      State = "lost" // its replica died; nobody knows how far it came
	StateCancelled State = "cancelled"
)

// Ended reports whether s is terminal.
func (s State) Ended() bool { return s != StatePending && s != StateRunning }

// Task is one unit of work in a pool, as its handler and the API see it. Times are UTC with
// microseconds; a zero time means "not yet" or "does not apply".
type Task struct {
	ID          string // UUIDv7
	Pool        string
	Kind        string
	Job         string    // empty for a task that a user enqueued
	ScheduledAt time.Time // due time of the trigger that it was born of
	Seq         int       // of that trigger; 0 = the schedule's own
	State       State
	Reason      string // why the state is what it is, for people
	Attempt     int    // from 1; 0 before the first claim
	MaxAttempts int    // retries limit + 1
	Lost        int    // replicas that died under it
	Token       int64  // fencing token of the attempt
	Replica     string
	Priority    int // −100 … 100, larger first
	RunAt       time.Time
	CreatedAt   time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	ExitCode    *int
	Error       string
	Payload     json.RawMessage
	RetryOf     string // id of the first task of the chain of retries
	Tags        []string
	OnLost      OnLost

	// IdempotencyKey is the same over all attempts and retries: "job@at", with "/seq" if seq > 0,
	// for a task born of a trigger, else the task's id; the set's name and a "/" in front.
	IdempotencyKey string
}

// Attempt is one earlier, ended execution of a task.
type Attempt struct {
	Attempt    int
	State      State
	Reason     string
	Token      int64
	Replica    string
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   *int
	Error      string
}

// NewTask is a task to enqueue. Only Pool is required.
type NewTask struct {
	Pool           string
	Kind           string
	Payload        any // encoded as JSON; json.RawMessage is taken as it is
	RunAt          time.Time
	Priority       int    // −100 … 100
	IdempotencyKey string // at most 255 bytes; one task per pool and key, as long as the task is kept
	Tags           []string
}
