package ledger

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Store is what a replica needs of the store. Every method is one transaction; a transaction that
// met a deadlock, a lock timeout or a lost connection before COMMIT is repeated as a whole inside
// the method. jobs.ErrUnavailable means that nothing is known, after the store has tried to settle
// what the lost COMMIT did.
type Store interface {
	Sessions
	Configurations
	Triggers
	Tasks
	Waits
	Workers
	Notifications

	// Listen has enqueued called with the pools of what this Store has enqueued or retried for users, after each commit, until
	// stop was called. It is not called for what others enqueue, nor for the tasks of transactions that a program ends
	// itself. enqueued returns at once.
	Listen(enqueued func(pools ...string)) (stop func())
	// Written returns a function that reports whether anything was written to the store since it was called last, by this or
	// another process: it asks no database. nil: the store does not show that.
	Written() func() bool
	// Sweep deletes what is older than its retention, at most limit rows of each kind, and reports
	// whether more is left. now is as in Decide.
	Sweep(ctx context.Context, now Judge, r jobs.Retention, limit int) (more bool, err error)
	// Local reports whether all that share the store run on one machine, so that they sleep when it does.
	Local() bool
}

// Sessions are the live replicas.
type Sessions interface {
	// Join adds a session, which has m.Config as its configuration, and returns its id. That of a worker is compared with no
	// other one; its m.Replica must be new; ErrManyWorkers if MostWorkers of its owner live. A live session
	// with the same replica id is ErrReplicaLive, naming it, unless its process is gone: same
	// boot id, and no process with its pid and start time. Such a one is declared dead at once. A live
	// session with another LockService is ErrLockService, naming both.
	Join(ctx context.Context, m Member) (session string, err error)
	// Beat is beat = beat + 1 of a session that is not dead, and returns the database's time.
	// ErrSessionDead is final. The session of a worker is not beaten so.
	Beat(ctx context.Context, session string) (database time.Time, err error)
	// SetDraining tells the others that this replica takes nothing new.
	SetDraining(ctx context.Context, session string) error
	// Peers returns the live sessions, own one and those of workers included, and the dead ones that still have running
	// tasks, sorted by replica id.
	Peers(ctx context.Context) ([]Peer, error)
	// Expire declares a session dead if its beat is still the one given; false if it was not.
	Expire(ctx context.Context, session string, beat int64) (bool, error)
	// Leave ends one's own session. Its running tasks, if any are left, are reaped by the others.
	Leave(ctx context.Context, session string) error
}

// Configurations are the definitions of jobs and pools, and which replica governs them.
type Configurations interface {
	// Load takes the next configuration number for the session, keeps it there, and asserts d.
	Load(ctx context.Context, session string, d Definitions) (config int64, err error)
	// Assert makes d hold if no live session has a higher configuration number than this one:
	// rows get d's hashes, new jobs and jobs whose schedule changed get cursor = now (or the later
	// one that they have), jobs and pools that d lacks are retired (no hash, no next time). Otherwise it does
	// nothing, and the answer says where d differs. A row that needs no change is not written. What d.Now
	// returns is an error of both: then jobs are as they were.
	Assert(ctx context.Context, session string, d Definitions) (Assertion, error)
}

// Triggers are the rows of the ledger, the due times that they are made of, and what a run by hand asks.
type Triggers interface {
	// Upcoming returns the next due times of the live jobs of the given stripes, in no order.
	Upcoming(ctx context.Context, stripes []int) ([]Upcoming, error)
	// Overdue returns jobs of any stripe whose next due time is at or before t, earliest first, at most limit.
	Overdue(ctx context.Context, t time.Time, limit int) ([]Upcoming, error)
	// Decide locks the rows of d.Jobs, asks d.Decide, and writes ledger rows, tasks and cursors in
	// one transaction. Rows that exist already win: their decision is left out of the answer, and
	// only the cursor moves.
	Decide(ctx context.Context, d Decide) (Decided, error)
	// TaskRow returns a task, without its earlier attempts; jobs.ErrNotFound. Like all that a replica asks it does
	// not wait for readers.
	TaskRow(ctx context.Context, id string) (jobs.Task, error)
	// Retry makes a new task of an ended one without a job; retry_of names the first of the chain. One that no
	// live replica can run is refused as by Enqueue, unless force.
	Retry(ctx context.Context, id, by string, force bool) (jobs.Task, error)
	// Namespace is the id that the first migration minted: what belongs to this store and no other.
	Namespace(ctx context.Context) (string, error)
}

// Tasks are the rows of the pools, as those that execute them see them.
type Tasks interface {
	// Ready promotes the tasks whose time has come and returns the pools that have pending tasks
	// which are due, and when the next task will be (zero: none waits). It sorts some of the tasks by their keys that claims have not looked
	// at, in pools that keys share, and goes on with a change of a pool's order: until all is moved, nothing of the pool starts. now is as in Decide.
	Ready(ctx context.Context, now Judge) (pools []string, next time.Time, err error)
	// EndExpired ends the pending tasks as cancelled that have expired, see Expired, at most limit of them, and returns when the next one does: in
	// the past if more have, zero if none does. What is due it promotes before, as Ready does: that may not be called meanwhile. now is as in
	// Decide.
	EndExpired(ctx context.Context, now Judge, limit int) (ended []jobs.Task, next time.Time, err error)
	// Look looks for tasks of a pool, of those that Ready speaks of, that are in a scope. It reads l.Most tasks of each
	// priority at most, and those with the run_at of the last, however many are out of scope.
	Look(ctx context.Context, pool string, l Look) (Seen, error)
	// Claim takes pending tasks that are due, in order of priority, due time and id. An error comes without tasks: those
	// that were claimed, if its outcome is unknown, are found by Own.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Finish writes the ends of attempts of the session's tasks, each under its token. The answer
	// has the order of results. An error that is not jobs.ErrUnavailable is a refusal: nothing was written,
	// and a single one of the results may be why.
	Finish(ctx context.Context, session string, results []Result) ([]Finished, error)
	// Extend moves may_run_until; the answer says for each whether the row was still ours, and the
	// session lives.
	Extend(ctx context.Context, session string, moves []Extension) ([]bool, error)
	// Report writes how far running tasks have come, each under its token; the answer says for each whether the row was still
	// ours, and the session lives. Of several for one task, the order decides which is written last.
	Report(ctx context.Context, session string, reports []Progress) ([]bool, error)
	// Own returns the running rows of the session.
	Own(ctx context.Context, session string) ([]Own, error)
	// Reap is the standing query: running tasks of dead sessions end as lost or wait again, as
	// their policy says, at most limit of them. With an error, too, the answer is what was reaped: one
	// that is not jobs.ErrUnavailable is a refusal of some of the others.
	Reap(ctx context.Context, limit int) ([]Reaped, error)
	// Pools returns all pools and, beside their counts, what in them is due and no live replica can run.
	Pools(ctx context.Context) ([]PoolStatus, error)
}

// Notifications are the events that a notifier may be told of.
type Notifications interface {
	// Notify looks at events, oldest first, and makes a task of each, deletes it, or leaves it, as
	// n.Route says, in one transaction.
	Notify(ctx context.Context, n Notify) (Notified, error)
}
