package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Overview is what a person looks at first, as one replica tells it. The lists are short, the most urgent first.
type Overview struct {
	Replica        string `json:"replica"` // that tells
	wire.Readiness        // of that replica
	// Error says why the store did not answer. What comes after it is then as it was At.
	Error string `json:"error,omitempty"`

	Paused *wire.Pause `json:"paused,omitempty"` // everything is; absent: it is not

	// What the store reads in one go: each list has at most the rows that were asked for.
	At      time.Time      `json:"at,omitzero"` // database time; zero: it was never read
	Jobs    int            `json:"jobs"`        // that a live configuration has
	Failing int            `json:"failing"`     // of them, those whose last end was no success
	Broken  []FailingJob   `json:"broken"`      // the failing jobs, the last end first
	Trouble []Trouble      `json:"trouble"`     // ends that were no success, the latest first; of each Wrong at least the latest
	Wrong   []TroubleCount `json:"wrong"`       // what went wrong within the last hour, counted, the latest first
	Next    []NextDue      `json:"next"`        // the next due times; what is past is overdue
	Running []RunningTask  `json:"running"`     // the longest first
	Recent  []jobs.Trigger `json:"recent"`      // due times, the latest first

	Replicas      []wire.Replica `json:"replicas"` // at most 100
	ReplicasTotal int            `json:"replicas_total"`
	Workers       []wire.Worker  `json:"workers"` // at most 100
	WorkersTotal  int            `json:"workers_total"`
	Pools         []wire.Pool    `json:"pools"` // at most 100
	PoolsTotal    int            `json:"pools_total"`
}

// FailingJob is a job whose last end was no success.
type FailingJob struct {
	Job         string      `json:"job"`
	Reason      string      `json:"reason,omitempty"` // of the latest such end
	ReasonCode  reason.Code `json:"reason_code,omitempty"`
	LastSuccess time.Time   `json:"last_success,omitzero"`
	LastEnd     time.Time   `json:"last_end,omitzero"`
}

// StateUnrunnable is the state of Trouble with tasks that are due and that no live replica can run.
const StateUnrunnable = "unrunnable"

// Trouble is a task that failed or was lost, or due times that were missed, or tasks of one kind or of a job that no
// live replica can run, which come first.
type Trouble struct {
	At         time.Time   `json:"at"`    // when it ended; since when the first of the tasks is due
	State      string      `json:"state"` // failed, lost, missed or unrunnable
	Job        string      `json:"job,omitempty"`
	Due        time.Time   `json:"due,omitzero"`    // of the job's trigger; the first one of a range
	Count      int         `json:"count,omitempty"` // due times missed, or tasks that wait
	Pool       string      `json:"pool,omitempty"`
	Kind       string      `json:"kind,omitempty"`
	TaskID     string      `json:"task_id,omitempty"`
	Attempt    int         `json:"attempt,omitempty"`
	Replica    string      `json:"replica,omitempty"`
	ExitCode   *int        `json:"exit_code,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	ReasonCode reason.Code `json:"reason_code,omitempty"`
	Error      string      `json:"error,omitempty"` // its beginning
}

// TroubleCount counts the tasks of a job, or of a kind in a pool, that failed or were lost within the last hour.
type TroubleCount struct {
	State string    `json:"state"` // failed or lost
	Job   string    `json:"job,omitempty"`
	Pool  string    `json:"pool"`
	Kind  string    `json:"kind,omitempty"`
	Count int       `json:"count"`
	Last  time.Time `json:"last"` // when the latest ended
}

// NextDue is a job's next due time.
type NextDue struct {
	Job       string    `json:"job"`
	At        time.Time `json:"at"`
	StartAt   time.Time `json:"start_at,omitzero"`   // when its trigger starts, of a job with jitter
	Suspended *bool     `json:"suspended,omitempty"` // override of the API; nil: the definition holds
	SkipNext  int       `json:"skip_next,omitempty"` // how many of the next due times a user has skipped
}

// RunningTask is a task that is being executed.
type RunningTask struct {
	TaskID  string    `json:"task_id"`
	Pool    string    `json:"pool"`
	Kind    string    `json:"kind,omitempty"`
	Job     string    `json:"job,omitempty"`
	Due     time.Time `json:"due,omitzero"` // of the job's trigger
	Since   time.Time `json:"since"`        // start of the attempt
	Attempt int       `json:"attempt"`
	Replica string    `json:"replica"`

	Progress     *float64 `json:"progress,omitempty"` // 0 … 1; nil: none was reported
	ProgressText string   `json:"progress_text,omitempty"`
}
