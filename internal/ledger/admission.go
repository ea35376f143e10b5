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
//   - its rate lets one more start, by its bucket, under the same lock; a start counts from here on, also if the task is handed back
//   - the replica has room for it in that pool
//   - the replica may run it, and can: Admit says so
//   - if it has locks, the replica presents their leases: Locks says so
//
// Then it gets the next token: a job's task that of its job's fence, any other one its own.
type Admission struct {
	Session string // of the replica
	Replica string
	Pools   map[string]Share // by name; no task of another pool becomes running
	// Admit is asked about each task that the rows let run: whether the replica may run it, and can, and until when an
	// attempt that starts now may run. It must be a pure function of its arguments.
	Admit func(now time.Time, c Candidate) (until time.Time, ok bool)
	// Locks is asked about each candidate that Admit lets run. Nil: none has locks. It must be a pure function of its arguments.
	Locks func(c Candidate) Locking
	// Tells is asked about each task whose first attempt starts: whether the transaction writes an EventStarted of it. Nil: of none. It must be a
	// pure function of its argument.
	Tells func(t jobs.Task) bool
}

// Share is what a replica has of a pool.
type Share struct {
	Hash    string // of the pool's definition that the replica goes by
	Limited bool   // it has limits, as far as the replica knows: the pool's row is locked
	Room    int    // how many tasks the replica takes at most
}

// Candidate is a task that may become running.
type Candidate struct {
	Task    jobs.Task // with the MaxAttempts and OnLost that it gets as it becomes running
	JobHash string    // of the job's row; "" for a task without a job
}

// Locking is what a replica says of the locks of a candidate. The zero Locking is that of one without locks.
type Locking struct {
	State  LockState
	Keys   []string      // as the lock service has them
	Wait   time.Duration // how long it may wait for them; 0: no limit
	Reason string        // with LocksBusy, what it waits for, and with LocksWrong, what is wrong
}

// LockState is how a replica and the locks of a candidate stand.
type LockState int

const (
	LocksHeld   LockState = iota // the replica presents the leases, or there are no locks
	LocksWanted                  // it has not tried them: a claim leaves the task and returns it in Locked, or makes it wait if others wait for one of its keys
	LocksBusy                    // it has tried them: a claim makes the task wait
	LocksWrong                   // the keys cannot be made of its payload: a claim ends it as failed
)

// Started is a task that became running. The store keeps nothing of the Task, which a claim gives to its caller alone.
type Started struct {
	*jobs.Task
	Until time.Time // its attempt may run until then even if the replica cannot renew its session; zero: as long as its session is trusted
}
