package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// JobState is a job's row, locked, with the tasks that hold its slots, and those that wait for one.
type JobState struct {
	Name       string
	Hash       string
	Cursor     time.Time    // all due times up to here are decided
	Fence      int64        // last token handed out
	Suspension              // override of the API, as it was set: it may have ended
	SkipNext   int          // how many of the next due times a user has skipped
	SkipBy     string       // who
	BusyUntil  time.Time    // a lost attempt of the job may still be running until then
	Lost       []LostTask   // whose attempts may be running now, as far as is known, the one that was lost last first
	Open       []jobs.Task  // pending or running, each with a slot, with what the reason of a skipped due time names
	Queued     []jobs.Task  // pending: they wait for a slot
	Stopping   []string     // ids of those in Open whose cancellation was requested
	Backfilled bool         // a backfill has made one of those in Open
	Orders     []OrderState // of Decide.Orders, those that are open, by id
}

// LostTask is an ended task whose attempt may still be running, since its end was not recorded.
type LostTask struct {
	ID          string
	ScheduledAt time.Time // due time of the trigger that it was born of
	Replica     string    // that had it
	At          time.Time // when it was declared lost
	Until       time.Time // it must have ended then
}

// Decision is what becomes of a job's due times. The store writes all of it in the transaction
// that read the JobState, or nothing.
type Decision struct {
	Job      string
	Triggers []Opening
	Cursor   time.Time // zero: leave cursor and NextAt as they are
	NextAt   time.Time // when to decide what is due next; zero: no further due time
	Due      time.Time // the due time that starts at NextAt, of a job with jitter; zero: NextAt itself
	Waiting  time.Time // a due time that waits for the job's slot; zero: none. See [Decision.Wait] and [Decision.Queues]
	Starts   []string  // ids of JobState.Queued: they get slots, and are ready
	Ends     []Ending
	Skipped  int  // due times that count off SkipNext
	Free     bool // BusyUntil is over now, and no attempt counts as lost: a user says that they have ended
	// Orders are what becomes of JobState.Orders. A run that is made for one has it as its trigger's Order, and is in its Progress without its
	// seq, which the store gives to it.
	Orders []Order
}

// Opening is one ledger row and, if it is to run, its task.
//
// For causes schedule and catch_up Trigger.Seq is 0. For every other cause the store assigns the
// next seq of (job, at), from 1, to the row and its task. An Opening whose Trigger has no Job is a
// retry of an ended task: it writes no ledger row, and its Task carries the old ScheduledAt and Seq.
type Opening struct {
	Trigger jobs.Trigger
	Task    *jobs.Task // nil: ended (skipped, missed)
	Queued  bool       // the task waits for a slot: nothing starts it before a Decision has it in Starts

	StartBy, FinishBy time.Time // by when the task is expected to have started, and ended; zero: at no time
}

// Decide is one call of the store's Decide.
//
// Tasks that the Admission lets run are running from the start, the others are pending. In a pool with a max_running whose
// row others have locked all of them are pending; and so are those for which no room would be left if the pool's pending
// tasks of the same or a higher priority ran first.
type Decide struct {
	Admission
	Jobs []string // distinct; the store sorts them
	// Orders are those of the Jobs that JobState is to have, where they are still open.
	Orders []DueOrder
	// Guard also locks the rows of the jobs' stripes: the lock service is the store's own database, and the
	// decider looks after their stripes.
	Guard bool
	// ByHand: a user asks for it. Else nothing is decided while everything is paused, and Decide is called without states. What is opened by hand
	// meanwhile is pending.
	ByHand bool
	// Overdue leaves out those whose NextAt has not come, by Now: another replica may have decided them.
	Overdue bool
	Now     Judge
	// Decide is called once per attempt of the transaction, with the locked rows of those Jobs that
	// exist and are not busy, sorted by name. It must be a pure function of its arguments.
	Decide func(now time.Time, states []JobState) []Decision
}

// Decided is what a Decide call wrote.
type Decided struct {
	Now       time.Time
	Paused    Pause       // of everything
	Decisions []Decision  // as written, without those whose ledger row existed before
	Started   []Started   // tokens filled in
	Opened    []jobs.Task // pending, those that got slots among them
	// Busy are Jobs whose rows other transactions had locked, and perhaps some that do not exist or are not overdue. Nothing
	// was decided about them; they are fewer than Jobs, so asking again for them comes to an end.
	Busy []string
}
