package jobs

import (
	"encoding/json"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// State is where a task is. Terminal states never change, but for one case: the own late result
// of a lost attempt replaces StateLost once.
type State string

const (
	StatePending   State = "pending" // waits for its time, a slot, a worker over HTTP, or the next attempt
	StateRunning   State = "running"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	StateLost      State = "lost" // its replica died; how far it came is unknown
	StateCancelled State = "cancelled"
)

// Ended reports whether s is terminal.
func (s State) Ended() bool { return s != StatePending && s != StateRunning }

// Task is one unit of work in a pool, as its handler and the API see it. Times are UTC with
// microseconds; a zero time means "not yet" or "does not apply".
type Task struct {
	ID          string          `json:"id"` // UUIDv7
	Pool        string          `json:"pool"`
	Kind        string          `json:"kind,omitempty"`
	Key         string          `json:"key,omitempty"`         // what the pool's limits and order by key go by
	Job         string          `json:"job,omitempty"`         // empty for a task that a user enqueued
	ScheduledAt time.Time       `json:"scheduled_at,omitzero"` // due time of the trigger that it was born of
	Seq         int             `json:"-"`                     // of that trigger; 0 = the schedule's own
	State       State           `json:"state"`
	Reason      string          `json:"reason,omitempty"`      // why the state is what it is, for people; see also Error
	ReasonCode  reason.Code     `json:"reason_code,omitempty"` // the same for programs
	Attempt     int             `json:"attempt"`               // from 1; 0 before the first claim
	MaxAttempts int             `json:"max_attempts"`          // retries limit + 1
	Timeout     Duration        `json:"timeout,omitempty"`     // of one attempt, if the task has its own; else its pool's or job's
	Backoff     Duration        `json:"backoff,omitempty"`     // before the first retry, if the task has its own
	OwnAttempts int             `json:"-"`                     // MaxAttempts, if they are the task's own; 0: its pool's or job's
	Lost        int             `json:"-"`                     // attempts that were lost
	Token       int64           `json:"token,omitempty"`       // fencing token of the attempt
	Replica     string          `json:"replica,omitempty"`
	Priority    int             `json:"priority"` // −100 … 100, larger first
	RunAt       time.Time       `json:"run_at,omitzero"`
	ExpiresAt   time.Time       `json:"expires_at,omitzero"` // it ends as cancelled if no attempt has started by then; zero: never
	CreatedAt   time.Time       `json:"created_at,omitzero"`
	StartedAt   time.Time       `json:"started_at,omitzero"`
	FinishedAt  time.Time       `json:"finished_at,omitzero"` // when its last attempt ended, however late that was recorded; without one, when the task did
	ExitCode    *int            `json:"exit_code,omitempty"`
	Error       string          `json:"error,omitempty"` // the first 16 KiB of it
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadSize int             `json:"payload_size"`       // bytes of it; lists leave out a Payload above 1 KiB
	RetryOf     string          `json:"retry_of,omitempty"` // id of the first task of the chain of retries
	// Fingerprint is that of a task that failed, or was lost, for good, and was not retried since.
	Fingerprint string   `json:"fingerprint,omitempty"`
	RetriedAs   string   `json:"retried_as,omitempty"` // id of the task that the last retry made of it; not of a task of a job
	Tags        []string `json:"tags,omitempty"`
	By          string   `json:"by,omitempty"` // the user that enqueued it, or asked for the run or retry; empty: a schedule, or not given
	OnLost      OnLost   `json:"-"`
	LostLimit   int      `json:"-"` // with OnLost retry: how many attempts may be lost

	// IdempotencyKey is the same over all attempts and retries: "job@at", with "/seq" if seq > 0,
	// for a task born of a trigger, else the task's id; the set's name and a "/" in front.
	IdempotencyKey string `json:"-"`

	Locks []HeldLock `json:"-"` // that the attempt holds, for its handler

	// ProgressDone and ProgressText are what the running attempt last reported, see [Task.Progress].
	ProgressDone *float64 `json:"progress,omitempty"` // 0 … 1, in steps of a millionth; nil: it has reported nothing
	ProgressText string   `json:"progress_text,omitempty"`

	// Reporter takes what the handler reports; nil for a task that no replica runs. A test of a handler may have one of its own.
	Reporter Reporter `json:"-"`
}

// Attempt is one earlier, ended execution of a task.
type Attempt struct {
	Attempt    int         `json:"attempt"`
	State      State       `json:"state"`
	Reason     string      `json:"reason,omitempty"`
	ReasonCode reason.Code `json:"reason_code,omitempty"`
	Token      int64       `json:"token,omitempty"`
	Replica    string      `json:"replica,omitempty"`
	StartedAt  time.Time   `json:"started_at,omitzero"`
	FinishedAt time.Time   `json:"finished_at,omitzero"` // of an attempt that was reaped: when it was
	ExitCode   *int        `json:"exit_code,omitempty"`
	Error      string      `json:"error,omitempty"` // the first 16 KiB of it
}

// NewTask is a task to enqueue. Only Pool is required.
type NewTask struct {
	Pool    string    `json:"-"` // the API has it in the path
	Kind    string    `json:"kind,omitempty"`
	Key     string    `json:"key,omitempty"`     // at most 128 bytes of printable text, such as a tenant: what the pool's PerKey and Order go by
	Payload any       `json:"payload,omitempty"` // encoded as JSON; json.RawMessage is taken as it is, and a []byte becomes a string of base64
	RunAt   time.Time `json:"run_at,omitzero"`
	// ExpiresAt ends the task as cancelled, with the reason code expired, if no attempt of it has started by then, by the store's clock. It is
	// later than now and than RunAt; zero: never. A retry of an attempt that failed or was lost does not expire; an attempt that was
	// snoozed or handed back has not started.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// MaxAttempts, Timeout and Backoff are the task's own, whatever its pool has then; zero: those of the pool. They may be larger than the
	// pool's.
	MaxAttempts    int           `json:"max_attempts,omitempty"`    // 1 … 1001: the first one, and the retries
	Timeout        time.Duration `json:"-"`                         // of one attempt; 1ms … 366d; "timeout" in JSON, as in 1m30s
	Backoff        time.Duration `json:"-"`                         // before the first retry; 1ms … 366d; "backoff" in JSON. It doubles up to the pool's MaxBackoff, and is not cut to that
	Priority       int           `json:"priority,omitempty"`        // −100 … 100
	IdempotencyKey string        `json:"idempotency_key,omitempty"` // at most 255 bytes; one task per pool and key, as long as the task is kept
	Tags           []string      `json:"tags,omitempty"`
	By             string        `json:"-"`                // the user that enqueues it, for people: at most 255 bytes. The API sets it to the name of the token
	Unique         *Unique       `json:"unique,omitempty"` // at most one task with the same values; nil: any number of them. The idempotency key is judged first
	// Force adds the task even though no live replica can run it: those that can are to follow.
	Force bool `json:"force,omitempty"`
}
