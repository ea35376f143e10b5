package triggers

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Options of Triggers. All of them are set; package scheduler has the defaults.
type Options struct {
	ID       string // of the replica
	Logger   *slog.Logger
	Observer Observer
}

// Triggers is the due times of a replica: it owns stripes of the jobs, decides what is due, and has it executed.
type Triggers struct {
	store   ledger.Triggers
	replica string // id of this one
	member  member
	log     *slog.Logger
	clock   *membership.Clock
	locks   *membership.LockService
	plan    *plan.Current
	metrics Observer
	work    Work

	stripes  *stripes
	upcoming *upcoming
	foreign  foreign
	freed    freed
	orders   orders

	replacing atomic.Bool // the rows of jobs may not be those of the plan yet

	storeID       string // the store's Namespace, empty until it is known; of balance alone
	metOtherStore bool   // it was logged; of balance alone

	wakeBalance chan struct{} // look at the stripes now
	wakeFire    chan struct{} // look at due times now
}

// Observer is told of each row that is written into the ledger.
type Observer interface {
	Decided(t jobs.Trigger)
}

// Work is what triggers need of the work of their replica: workers, and what executes the tasks that were decided.
type Work interface {
	// MayBegin reports whether new work may be taken.
	MayBegin() bool
	// Hold keeps a drain from ending until release is called; false once this replica was told to drain.
	Hold() (release func(), ok bool)
	// Reserve takes free workers for runs of these jobs of p. may says which tasks a transaction may make running on them. start is
	// called with the transaction's result, which is empty after an error: it starts what became running, and frees the
	// other workers.
	Reserve(p *plan.Plan, jobs []string) (may ledger.Admission, start func(ctx context.Context, decided ledger.Decided))
	// Ahead returns what the last look at the store has found; false if there was none for a while.
	Ahead() (ledger.Ahead, bool)
	// Wake says that tasks were enqueued in these pools.
	Wake(pools ...string)
	// Deciding says whether due times are being decided, and more are due. Ends of attempts may be recorded later meanwhile.
	Deciding(is bool)
}

// member is what triggers need of the replica's membership; *membership.Member is one.
type member interface {
	Clock() *membership.Clock
	Session() *membership.Session
	Draining() bool
	Loaded() bool
	StoreFailed(err error)
	WatchEvery() time.Duration
}

// New makes the triggers of a replica. No due time is known yet.
func New(st ledger.Triggers, m member, lk *membership.LockService, p *plan.Current, w Work, o Options) *Triggers {
	return &Triggers{
		store: st, replica: o.ID, member: m, log: o.Logger, clock: m.Clock(), locks: lk, plan: p, metrics: o.Observer, work: w,
		stripes: &stripes{held: map[int]*locks.Lease{}}, upcoming: newUpcoming(), wakeBalance: wake.Signal(), wakeFire: wake.Signal(),
	}
}

// rules decide with the definitions of p; newID makes the ids of tasks.
func (t *Triggers) rules(p *plan.Plan, now time.Time, newID func(job string, n int) string) rules {
	return rules{plan: p, replica: t.replica, of: p.Namespace(), now: now, newID: newID}
}

// Run decides due times, and balances the stripes, until ctx is done.
func (t *Triggers) Run(ctx context.Context) { wake.Loops(ctx, t.fire, t.balance) }

// Wake makes fire look now, and not with its next poll.
func (t *Triggers) Wake() { wake.Send(t.wakeFire) }

// Live notes which replicas take part. If other stripes are this replica's, they are balanced now.
func (t *Triggers) Live(replicas []string) {
	if t.stripes.take(t.replica, replicas, t.member.Draining()) {
		wake.Send(t.wakeBalance)
	}
}

// Recorded notes that an attempt of a job was recorded, and the state of its task then: a due time may wait for the slot. Where that is for the owner of another
// stripe to know, this replica looks in its place, which would look later.
func (t *Triggers) Recorded(job string, state jobs.State) {
	if !state.Ended() {
		return
	}
	hastened := t.upcoming.free(job, t.clock.Now())
	hastened = t.orders.end(job) || hastened
	if j, known := t.plan.Load().Jobs[job]; known && j.Concurrency.Queues() && !t.owns(j.Stripe) && !t.foreign.has(job) {
		t.freed.add(job)
		hastened = true
	}
	if hastened {
		t.Wake()
	}
}

// Replacing says that the rows of jobs are about to become those of another plan, until it is called with false. What does not fit to
// its row meanwhile is not decided, and not taken as left to others.
func (t *Triggers) Replacing(is bool) { t.replacing.Store(is) }

// LeaveJobs leaves these jobs, and no others, to replicas with a newer configuration. It reports whether they changed.
func (t *Triggers) LeaveJobs(jobs []string) (news bool) { return t.foreign.set(jobs) }

// ForeignJobs is how many jobs are left to others.
func (t *Triggers) ForeignJobs() int { return t.foreign.count() }

// RefreshJobs reads the due times of these jobs again, as far as they are of the own stripes.
func (t *Triggers) RefreshJobs(ctx context.Context, names []string) {
	owned, p := t.Owned(), t.plan.Load()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		j, known := p.Jobs[name]
		if known {
			_, known = slices.BinarySearch(owned, j.Stripe)
		}
		return !known
	})
	if len(names) > 0 {
		t.lookAt(ctx, owned, func(ctx context.Context) ([]ledger.Upcoming, error) { return t.store.UpcomingOf(ctx, names) })
	}
}

// Refresh reads the due times of the own stripes again.
func (t *Triggers) Refresh(ctx context.Context) { t.look(ctx, t.Owned()) }
