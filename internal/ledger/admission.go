package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Admission is what a replica says of the tasks that a transaction may make running for it: those that it claims, and
// those of the triggers that it decides. A task may become running if all of this holds:
//
//   - its pool's row has the definition that the replica goes by, and is not paused
//   - the pool has room under its max_running, counted under the lock of its row
//   - the replica has room for it in that pool
//   - the replica may run it, and can: Admit says so
//
// Then it gets the next token: a job's task that of its job's fence, any other one its own.
type Admission struct {
	Session string // of the replica
	Replica string
	Pools   map[string]Share // by name; no task of another pool becomes running
	// Admit is asked about each task that the rows let run: whether the replica may run it, and can, and until when an
	// attempt that starts now may run. It must be a pure function of its arguments.
	Admit func(now time.Time, c Candidate) (until time.Time, ok bool)
}

// Share is what a replica has of a pool.
type Share struct {
	Hash    string // of the pool's definition that the replica goes by
	Limited bool   // that definition has a max_running: the pool's row is locked
	Room    int    // how many tasks the replica takes at most
}

// Candidate is a task that may become running.
type Candidate struct {
	Task    jobs.Task // with the MaxAttempts and OnLost that it gets as it becomes running
	JobHash string    // of the job's row; "" for a task without a job
}

// Started is a task that became running.
type Started struct {
	jobs.Task
	Until time.Time // its attempt may run until then even if the replica cannot renew its session; zero: as long as its session is trusted
}
