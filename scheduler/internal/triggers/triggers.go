package triggers

import (
	"context"
	"log/slog"
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
	plan    *plan.Plan
	metrics Observer
	work    Work

	stripes  *stripes
	upcoming *upcoming
	foreign  foreign

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
	// Reserve takes free workers for runs of these jobs. may says which tasks a transaction may make running on them. start is
	// called with the transaction's result, which is empty after an error: it starts what became running, and frees the
	// other workers.
	Reserve(jobs []string) (may ledger.Admission, start func(ctx context.Context, decided ledger.Decided))
	// Wake says that tasks were enqueued in these pools.
	Wake(pools ...string)
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
func New(st ledger.Triggers, m member, lk *membership.LockService, p *plan.Plan, w Work, o Options) *Triggers {
	return &Triggers{
		store: st, replica: o.ID, member: m, log: o.Logger, clock: m.Clock(), locks: lk, plan: p, metrics: o.Observer, work: w,
		stripes: &stripes{held: map[int]*locks.Lease{}}, upcoming: newUpcoming(), wakeBalance: wake.Signal(), wakeFire: wake.Signal(),
	}
}

// rules decide with the present definitions; newID makes the ids of tasks.
func (t *Triggers) rules(now time.Time, newID func(job string, n int) string) rules {
	return rules{plan: t.plan, replica: t.replica, now: now, newID: newID}
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

// Recorded notes that an attempt of a job was recorded, and the state of its task then: a due time may wait for the slot.
func (t *Triggers) Recorded(job string, state jobs.State) {
	if state.Ended() && t.upcoming.free(job, t.clock.Now()) {
		t.Wake()
	}
}

// LeaveJobs leaves these jobs, and no others, to replicas with a newer configuration. It reports whether they changed.
func (t *Triggers) LeaveJobs(jobs []string) (news bool) { return t.foreign.set(jobs) }

// ForeignJobs is how many jobs are left to others.
func (t *Triggers) ForeignJobs() int { return t.foreign.count() }

// Refresh reads the due times of the own stripes again.
func (t *Triggers) Refresh(ctx context.Context) { t.look(ctx, t.Owned()) }
