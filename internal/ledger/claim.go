package ledger

import (
	"errors"
	"maps"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Claim asks for pending tasks of one pool, as many as the replica's share has room for.
type Claim struct {
	Admission
	Pool string // another definition in its row than that of the share, or none, means ErrOutdated
	ID   string // of this claim, random: settles a commit whose answer was lost
	// Guard locks the pool's row inside the transaction: the lock service is the store's own database, and claims do not wait long
	// there.
	Guard bool
	Scope Scope
	// Waiting are ids: the claim takes these tasks, which wait for locks, and no others. If the pool is full they wait for locks no
	// more: they are pending as others are.
	Waiting []string
	// Bytes bounds the payloads of the tasks that are claimed, together: the claim ends before the task that would not fit, and says that there
	// is More. Its first task is claimed whatever it has. 0: no bound.
	Bytes int
	// Wanted is asked once the transaction has begun, which may have waited for those of others: the claim takes as many tasks if that is more than
	// the share has room for. Nil: it takes no more.
	Wanted func() int
	Now    Judge
	// LockTook is how long the locks behind which it claims took to be acquired: that of the pool's claims, and those of the tasks that it can
	// take. It is kept with the triggers whose tasks it starts first.
	LockTook time.Duration
}

// Grown is the admission with a share as large as is Wanted by now. It is called in the transaction.
func (c Claim) Grown() Admission {
	a, share := c.Admission, c.Pools[c.Pool]
	if c.Wanted == nil {
		return a
	}
	if n := c.Wanted(); n > share.Room {
		share.Room = n
		a.Pools = maps.Clone(a.Pools)
		a.Pools[c.Pool] = share
	}
	return a
}

// Scope is which tasks of a pool a replica looks at: what it cannot run neither stands in front of the rest nor
// looks like work. The zero Scope is all tasks.
type Scope struct {
	SkipJobs []string // tasks of these jobs are left out
	// Kinds are those of the tasks without a job; "" is for a task without a kind. Nil: whatever they are. Tasks
	// of jobs have their own handler, whatever their kind.
	Kinds  []string
	Within *Window // nil: wherever they stand
}

// Window is a stretch of a pool's pending tasks in the order of claims: those of one priority whose run_at is after
// After, up to UpTo inclusive.
type Window struct {
	Priority int
	After    time.Time // zero: from the first
	UpTo     time.Time // zero: to the last
}

// Look asks whether a pool has pending tasks in a scope.
type Look struct {
	Scope
	Past map[int]time.Time // by priority: tasks whose run_at is up to then are not looked at
	Most int               // how many tasks of a priority are looked at, and those with the run_at of the last; ≥ 1
}

// Seen is what a Look found.
type Seen struct {
	Work *Window // the first, in the order of claims, of what was looked at that has a task in scope; nil: none has
	// Past is, by priority, up to where there is nothing in scope, though there is more behind that. Priorities
	// behind that of Work were not looked at.
	Past map[int]time.Time
}

// Claimed is what a Claim call took.
type Claimed struct {
	Now     time.Time
	Tasks   []Started
	Foreign []jobs.Task // candidates that Admit refused
	Locked  []jobs.Task // candidates with locks that the replica is to try; in the order of claims
	Waiting []jobs.Task // those that wait for their locks from now on
	Failed  []jobs.Task // those that ended, as the keys of their locks cannot be made
	Behind  int         // candidates that wait for their keys from now on
	Freed   int         // how many of Tasks had waited for their keys
	More    bool        // there may be further pending tasks that are due
	Paused  bool        // the pool is, or everything
	Full    bool        // before the claim: as many tasks as may run did, or the rate let none start
	Limited bool        // the pool has limits, as a whole or by key, by its definition or by an override
	ByKey   bool        // it has limits or an order by key
	Left    int         // in a pool with limits, how many more tasks they let start; 0 where it is paused
	// OpensIn is, in a pool with a rate, the time until it lets one more task start; 0: it does now.
	OpensIn time.Duration
}

// Results of claims, as jobs.ClaimTry describes them.
const (
	ClaimTook     = "took"
	ClaimEmpty    = "empty"
	ClaimFull     = "full"
	ClaimPaused   = "paused"
	ClaimOutdated = "outdated"
	ClaimFailed   = "failed"
)

// Result is what came of a claim with this answer, or with an error.
func (c Claimed) Result(err error) string {
	switch {
	case errors.Is(err, ErrOutdated):
		return ClaimOutdated
	case err != nil:
		return ClaimFailed
	case len(c.Tasks) > 0:
		return ClaimTook
	case c.Paused:
		return ClaimPaused
	case c.Full:
		return ClaimFull
	}
	return ClaimEmpty
}

// Extension moves may_run_until of a running attempt ahead.
type Extension struct {
	TaskID string
	Token  int64
	Until  time.Time
}

// Running is what a replica has to know of the tasks that run.
type Running struct {
	Own      []Own
	Orphaned bool // dead sessions have some
}

// Own is a running row of one's own session.
type Own struct {
	TaskID  string
	Token   int64
	ClaimID string
	Cancel  string // reason, if its cancellation was asked for
}

// Reaped is a task whose owner was dead.
type Reaped struct {
	Task    jobs.Task // after: lost, or pending again
	Replica string    // the dead owner
}
