package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// WhyMost is how far facts count, and WhyTasks how many tasks they list.
const (
	WhyMost  = 10_000
	WhyTasks = 20
)

// Facts are what the store knows of a task and of what it may wait for, at one moment. Package why explains them.
type Facts struct {
	At   time.Time // the store's time
	Task jobs.Task // without its payload

	// Of a pending task:
	Waiting Waiting
	Pausing Pause         // of everything
	Last    *jobs.Attempt // its last attempt that has ended and counts; nil: none has
	Pool    *PoolStatus   // its row, without counts; nil: there is none
	Bucket  Bucket        // of the pool
	Paused  time.Time     // when it was paused by the API, if the audit has that among its latest entries
	Moving  bool          // the pool's order has changed, and its tasks still get places, or lose them: nothing of it starts
	Live    []LiveReplica // sorted by id
	// ByWorkers: workers run it, as they run its kind. It is not set for a task of a job, which may have a handler of its own: a configuration says that.
	// Workers are the live ones that take its kind, sorted by id, if workers run that.
	ByWorkers bool
	Workers   []Peer
	Running   Tally       // of the pool
	Key       *KeyFacts   // nil: the pool's keys do not concern it
	Kind      *KindFacts  // nil: the pool does not limit its kind
	Locks     []LockFacts // that it waits for, sorted by key
	Slots     *SlotFacts  // of its job; nil: it waits for none
	Ahead     Count       // ready tasks of the pool that come before it
	Pace      Pace        // of the pool

	// Of a running task:
	Owner       *Peer // its session; nil: there is no such row
	Cancel      string
	MayRunUntil time.Time // also of a lost one: its attempt may run until then
}

// Waiting is what the row of a pending task waits for.
type Waiting int

const (
	WaitsForClaim Waiting = iota
	WaitsForTime
	WaitsForLocks
	WaitsForKey
	WaitsForSlot
)

// Count is a number of rows, counted up to WhyMost.
type Count struct {
	N    int
	More bool // there are more
}

// Tally is how many tasks run, and the first WhyTasks of them.
type Tally struct {
	Count
	Tasks []RunningTask
}

// LiveReplica is a session that is not dead, and what it takes in the pool of a task.
type LiveReplica struct {
	Peer
	HasPool     bool
	Governs     bool     // it has the definition that governs the pool
	Kinds       []string // of tasks that it takes there; nil, with HasPool: any
	Running     int      // in all pools
	PoolRunning int
	Uncounted   bool // more tasks run than were counted: these two are too small
}

// KeyFacts are those of a task's key in a pool with limits, an order or shares by key.
type KeyFacts struct {
	Running Tally      // with its key
	Bucket  Bucket     // of its key
	Before  Count      // tasks with its key that come before it and wait for the key, or with an order have not ended
	First   *jobs.Task // with an order: the first of those; nil: it is the first itself
	Turn    bool       // the row waits for its key
}

// KindFacts are those of a task's kind in a pool that limits it.
type KindFacts struct {
	Limits
	Running Tally
	Bucket  Bucket
}

// SlotFacts are those of the slots of a job for which one of its tasks waits.
type SlotFacts struct {
	Open      []jobs.Task // that have one, the first WhyTasks by id
	Count                 // of all that have one
	Before    int         // tasks of the job that wait and were due before it
	BusyUntil time.Time   // a lost attempt of the job may run until then
}

// LockFacts are those of a lock that a task waits for.
type LockFacts struct {
	Key    string // as the lock service has it
	Before Count  // tasks that wait for it and come before this one
	First  string // of those
	Queued string // replica that waits for it at the lock service; empty: none
}

// Pace is how many tasks of a pool have ended of late, after they had started.
type Pace struct {
	Ends  int
	Since time.Time // what ended from then on was counted
}

// PerSecond is 0 if nothing was measured.
func (p Pace) PerSecond(now time.Time) float64 {
	if d := now.Sub(p.Since); p.Ends > 0 && d > 0 {
		return float64(p.Ends) / d.Seconds()
	}
	return 0
}
