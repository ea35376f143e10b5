package work

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/outfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Options of an Executor. All of them are set; package scheduler has the defaults.
type Options struct {
	ID           string // of the replica
	Workers      int
	SessionTTL   time.Duration
	DrainTimeout time.Duration
	StopGrace    time.Duration
	OutputLimit  int
	JobLocks     JobLocks // nil: nothing has locks
	Notices      Notices  // nil: replicas find the tasks of others with their poll
	Logger       *slog.Logger
	Observer     Observer
}

// Executor is the work of a replica: it claims tasks, executes them and records their results.
type Executor struct {
	store    tasks
	opt      Options
	on       Hooks
	member   member
	log      *slog.Logger
	clock    *membership.Clock
	locks    *membership.LockService
	jobLocks JobLocks
	plan     *plan.Current
	metrics  Observer

	slots     *slots
	shortages shortages
	feeders   *feeders
	register  *register
	recorder  *recorder
	attempts  inflight
	files     outfile.Files // of outputs
	notices   *NoticeSender
	releases  *releases
	waits     *waits
	halt      sync.Once
	halted    chan struct{} // closed when everything must stop at once

	ahead          atomic.Pointer[aheadAt]
	metUnknown     atomic.Bool   // a task that this replica has no handler for
	wakePoll       chan struct{} // look at the pools now
	wakeProgress   chan struct{} // write the progress of attempts
	wakeTend       chan struct{} // look at own rows and at those of expired sessions now
	wakeUnrunnable chan struct{} // look at tasks that no live replica can run now
}

// New makes the work of a replica. It starts no loop.
func New(st tasks, m member, lk *membership.LockService, p *plan.Current, o Options, on Hooks) *Executor {
	e := &Executor{
		store: st, opt: o, on: on, member: m, log: o.Logger, clock: m.Clock(), locks: lk, plan: p, metrics: o.Observer,
		shortages: shortages{log: o.Logger}, register: newRegister(), halted: make(chan struct{}),
		wakePoll: wake.Signal(), wakeProgress: wake.Signal(), wakeTend: wake.Signal(), wakeUnrunnable: wake.Signal(),
	}
	e.slots = newSlots(o.Workers, p.Load(), e.wakeFeeder)
	e.slots.closed = e.shortages.closed
	e.recorder = newRecorder(e)
	e.jobLocks, e.releases, e.waits = o.JobLocks, newReleases(o.JobLocks, e.register.running), newWaits(e)
	e.notices = NewNoticeSender(o.Notices)
	e.feeders = newFeeders(e, p.Load())
	return e
}

// tasks is what an Executor needs of the store.
type tasks interface {
	ledger.Tasks
	ledger.Waits
	Writes() ledger.Writes
	SeenPause() ledger.Pause
	TaskRow(ctx context.Context, id string) (jobs.Task, error)
}

// member is what an Executor needs of the replica's membership; *membership.Member is one.
type member interface {
	Clock() *membership.Clock
	Session() *membership.Session
	Draining() bool
	Others() int
	StoreFailed(err error)
	WatchEvery() time.Duration
}

// Hooks are called when something has changed.
type Hooks struct {
	Recorded func(job string, state jobs.State) // an attempt has ended; the state is that of its task then
	Outdated func()                             // another configuration governs a pool
	Arrived  func(pool string)                  // there may be tasks of the pool to claim; nil: nobody else claims
}

// Take claims tasks and starts them, until ctx is done. It logs those that no live replica can run.
func (e *Executor) Take(ctx context.Context) {
	loops := []func(context.Context){e.poll, e.watchWrites, e.unrunnable, e.waits.run, e.feed}
	if e.notices.service != nil {
		loops = append(loops, e.notices.Run, e.listen)
	}
	wake.Loops(ctx, loops...)
}

// Keep records the results of what was started, and stops what must stop, until ctx is done. It reaps the tasks of expired
// sessions, and writes the progress of its own.
func (e *Executor) Keep(ctx context.Context) {
	wake.Loops(ctx, e.tend, e.expire, e.endExpired, e.writeProgress, e.recorder.run, e.releases.run)
}

// Halt stops everything that runs at once.
func (e *Executor) Halt() { e.halt.Do(func() { close(e.halted) }) }

// Halted is closed once Halt was called.
func (e *Executor) Halted() <-chan struct{} { return e.halted }

// Hold keeps a drain from ending until release is called; false once this replica was told to drain.
func (e *Executor) Hold() (release func(), ok bool) {
	return e.attempts.end, !e.member.Draining() && e.attempts.begin()
}

// Condition says of which pools work cannot be started here; not short: of none.
func (e *Executor) Condition() (c wire.Condition, short bool) { return e.shortages.condition() }

// Running counts the attempts of each pool.
func (e *Executor) Running() map[string]int { return e.register.attemptsByPool() }

// GoBy gives each pool's feeder the definition that governs: that in others, else this replica's own.
func (e *Executor) GoBy(others []ledger.OtherPool) {
	rows := map[string]ledger.OtherPool{}
	for _, row := range others {
		rows[row.Name] = row
	}
	for name, f := range *e.feeders.all.Load() {
		pool := f.defined()
		g := pool.Governs()
		if row, differs := rows[name]; differs {
			g = pool.Under(row)
		}
		f.goBy(g)
	}
}

// Wake makes the loops look now, and not with the next poll: at pools in which tasks were enqueued. Other replicas are told of
// those whose tasks this one does not take at once. Without pools the loops look at all of them, and at what runs.
func (e *Executor) Wake(pools ...string) {
	if len(pools) == 0 {
		wake.Send(e.wakeTend)
		wake.Send(e.wakePoll)
		wake.Send(e.waits.wake)
	}
	for _, name := range pools {
		if e.notices.service != nil && !e.takes(name) {
			e.notices.Add(name)
		}
		e.wakeFeeder(name)
	}
}

func (e *Executor) wakeFeeder(pool string) {
	if f := e.present(pool); f != nil {
		wake.Send(f.wake)
		e.arrived(pool)
	}
}

// arrived says that there may be tasks of a pool, for those that this replica claims for others.
func (e *Executor) arrived(pool string) {
	if e.on.Arrived != nil {
		e.on.Arrived(pool)
	}
}

// PlaceFreed says that an attempt of a pool has ended that this replica did not execute: one of a worker, or one of another replica that
// a server ended by this one. If the pool has limits, as this replica or the caller knows, the place may be for its feeder, or for another process.
func (e *Executor) PlaceFreed(pool string, limited bool) {
	f := e.present(pool)
	if f == nil {
		return
	}
	if limited = limited || f.governed().Limited; limited {
		f.wakeFull(limited)
		e.notices.Add(pool)
	}
}

// MayClaim reports whether new work may be taken, for this replica or for others by it.
func (e *Executor) MayClaim() bool { return e.MayBegin() && !e.locks.Blocks() }

// Governed is the definition of a pool of p that holds, as far as this replica has learned; none if p is not the present plan.
func (e *Executor) Governed(p *plan.Plan, pool string) plan.Governing {
	if f := e.feeder(pool); f != nil {
		return f.governedBy(p)
	}
	return plan.Governing{}
}

// LookSoon makes the poll look now: a task may wait for a time that it does not know.
func (e *Executor) LookSoon() { wake.Send(e.wakePoll) }

// Runs reports whether this replica takes tasks of the kind in the pool by the pool's handler. It does not if a newer
// configuration governs and has the handler otherwise, as far as this replica has learned, nor while it drains.
func (e *Executor) Runs(pool, kind string) bool {
	f := e.present(pool)
	if f == nil || e.member.Draining() {
		return false
	}
	return slices.Contains(f.governed().KindsOf(f.defined()), kind)
}
