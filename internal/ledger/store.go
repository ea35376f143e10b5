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
	// Writes shows when something is written to the store, by this or another process. nil: the store does not show that.
	Writes() Writes
	// Sweep deletes what is older than its retention, at most limit rows of each kind, and reports
	// whether more is left. now is as in Decide.
	Sweep(ctx context.Context, now Judge, r jobs.Retention, limit int) (more bool, err error)
	// Local reports whether all that share the store run on one machine, so that they sleep when it does.
	Local() bool
}

// Writes shows when a store is written, and asks no database. It is of one goroutine.
type Writes interface {
	// Written reports whether anything was written since it was called last.
	Written() bool
	// Await returns true once something may have been written since then, or most is over, or ctx is done; false at once where that is
	// not told: then ask again and again.
	Await(ctx context.Context, most time.Duration) (told bool)
}

// Sessions are the live replicas.
type Sessions interface {
	// Join adds a session, and returns its id. Its configuration is m.Config, or the number of content m.ConfigHash if it has another one by now. That of a worker is compared with no
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
	// Peers returns the live sessions, own one and those of workers included, sorted by replica id.
	Peers(ctx context.Context) ([]Peer, error)
	// Expire declares a session dead if its beat is still the one given; false if it was not.
	Expire(ctx context.Context, session string, beat int64) (bool, error)
	// Leave ends one's own session. Its running tasks, if any are left, are reaped by the others.
	Leave(ctx context.Context, session string) error
}

// KeptConfigurations is of how many configurations, the newest ones, the numbers are kept however old they are.
const KeptConfigurations = 1000

// Configurations are the definitions of jobs and pools, and which replica governs them.
type Configurations interface {
	// Enter gives the session the number of d's content, and keeps it there with d's Content and At. Content that was never loaded
	// gets the next number, so it is the newest. With d.Activate content that is not the newest gets the next number, and with it all
	// sessions that have it. Content whose number the sweep has deleted counts as never loaded: no session has it, as many as
	// KeptConfigurations are newer, and it was superseded longer ago than triggers are kept.
	Enter(ctx context.Context, session string, d Definitions) (config int64, err error)
	// Load enters the session, and asserts d.
	Load(ctx context.Context, session string, d Definitions) (config int64, err error)
	// SetDiffers keeps with the session what the governing configuration has otherwise, for people.
	SetDiffers(ctx context.Context, session, what string) error
	// Assert makes d hold if no live session has a higher configuration number than this one:
	// rows get d's hashes, new jobs and jobs whose schedule changed get cursor = now (or the later
	// one that they have), jobs and pools that d lacks are retired (no hash, no next time). Otherwise it does
	// nothing, and the answer says where d differs. The session has another number than d.Number: ErrRenumbered, and nothing is
	// written. Pending tasks of jobs that are retired are cancelled. A row that needs no change is not written. What d.Now
	// returns is an error of both: then jobs are as they were. A definition of a job that begins to govern is in its history with
	// the job's row, see History.
	// With d.Since it looks at the jobs of d.Changed alone where no others can have been written, see there.
	Assert(ctx context.Context, session string, d Definitions) (Assertion, error)
}

// Triggers are the rows of the ledger, the due times that they are made of, and what a run by hand asks.
type Triggers interface {
	// Upcoming returns the next due times of the live jobs of the given stripes, in no order.
	Upcoming(ctx context.Context, stripes []int) ([]Upcoming, error)
	// UpcomingOf returns those of the live ones among these jobs, in no order.
	UpcomingOf(ctx context.Context, jobs []string) ([]Upcoming, error)
	// Overdue returns jobs of any stripe whose next due time is at or before t, earliest first, at most limit.
	Overdue(ctx context.Context, t time.Time, limit int) ([]Upcoming, error)
	// SeenPause is the pause of everything, as this Store has read it last for a decision, a claim or Ready; the zero Pause: there was none.
	SeenPause() Pause
	// Decide locks the rows of d.Jobs, asks d.Decide, and writes ledger rows, tasks and cursors in
	// one transaction. Rows that exist already win: their decision is left out of the answer, and
	// only the cursor moves.
	Decide(ctx context.Context, d Decide) (Decided, error)
	// AddOrder keeps an open order, as of the database's time, of a job that has the definition with this hash; jobs.ErrNotFound if no configuration has
	// the job, jobs.ErrConflict if it has another definition. A time of a run that has passed, and an end of a backfill that has not, are
	// a *jobs.FieldError of "at" and "to". To add the same id again changes nothing.
	AddOrder(ctx context.Context, o Order, hash string) (Order, error)
	// DueOrders returns open orders whose NextAt is at or before t, the earliest first, at most limit. Those of jobs that no configuration has
	// end instead.
	DueOrders(ctx context.Context, t time.Time, limit int) ([]DueOrder, error)
	// Ran returns the due times of a job from from on, and before to, that have run or are about to, by the ledger, sorted, at most limit.
	Ran(ctx context.Context, job string, from, to time.Time, limit int) ([]time.Time, error)
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
	// Ready promotes the tasks whose time has come and returns which pools have pending tasks that are due, and what else there is. It sorts some of the tasks by their keys that claims have not looked
	// at, in pools that keys share, and goes on with a change of a pool's order: until all is moved, nothing of the pool starts. now is as in Decide.
	Ready(ctx context.Context, now Judge) (Ready, error)
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
	// WriteOutput writes chunks of what running tasks write, each under its token; the answer says for each whether the row was still
	// ours, and the session lives.
	WriteOutput(ctx context.Context, session string, chunks []Chunk) ([]bool, error)
	// Running returns the running rows of the session, by id, and whether dead sessions have some.
	Running(ctx context.Context, session string) (Running, error)
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
	// LateRuns deletes the expectations whose time has come, LateAfter ago, at most limit of them, the oldest first, and writes an event
	// of each that its run has not met, in one transaction. now is as in Decide.
	LateRuns(ctx context.Context, now Judge, limit int) (Lateness, error)
}
