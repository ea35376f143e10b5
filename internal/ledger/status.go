package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// JobStatus is a job's row for people.
type JobStatus struct {
	Name        string
	Hash        string // "" = retired: no live configuration has it
	Config      int64
	Cursor      time.Time
	NextAt      time.Time
	Fence       int64
	Suspended   *bool // override; nil = none
	SuspendedBy string
	Open        int           // pending and running tasks
	Last        *jobs.Trigger // the latest ledger row
	LastSuccess time.Time
}

// PoolStatus is a pool's row and its counts for people.
type PoolStatus struct {
	Name          string
	Hash          string
	MaxRunning    int
	Paused        *bool // override; nil = none
	PausedBy      string
	Pending       int // due now
	Scheduled     int // waits for its time
	Running       int
	OldestPending time.Time // run_at; zero = none
	// Kinds are those of the tasks that some live replica has a handler for, sorted, or that one had where none
	// is live; "" is for tasks without a kind. Nil: any, or it is not known.
	Kinds      []string
	Unrunnable []Unrunnable // by kind; empty while there is a live replica for all that is due
}
