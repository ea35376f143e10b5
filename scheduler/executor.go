package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// workOptions are those of an executor. All of them are set.
type workOptions struct {
	ID           string // of the replica
	Workers      int
	SessionTTL   time.Duration
	DrainTimeout time.Duration
	StopGrace    time.Duration
	OutputLimit  int
	Logger       *slog.Logger
	Metrics      workMetrics
}

// executor is the work of a replica: it claims tasks, executes them and records their results.
type executor struct {
	store   ledger.Tasks
	opt     workOptions
	on      executorHooks
	member  member
	log     *slog.Logger
	clock   *membership.Clock
	locks   *membership.LockService
	plan    *plan.Plan
	metrics workMetrics

	slots    *slots
	room     room
	feeders  map[string]*feeder
	register *register
	recorder *recorder
	attempts gate
	halt     sync.Once
	halted   chan struct{} // closed when everything must stop at once

	metUnknown      atomic.Bool   // a task that this replica has no handler for
	nudgePoll       chan struct{} // look at the pools now
	nudgeTend       chan struct{} // look at own rows and at those of expired sessions now
	nudgeUnrunnable chan struct{} // look at tasks that no live replica can run now
}

// newExecutor makes the work of a replica. It starts no loop.
func newExecutor(st ledger.Tasks, m *membership.Member, lk *membership.LockService, p *plan.Plan, o workOptions, on executorHooks) *executor {
	e := &executor{
		store: st, opt: o, on: on, member: m, log: o.Logger, clock: m.Clock(), locks: lk, plan: p, metrics: o.Metrics,
		room: room{log: o.Logger}, feeders: map[string]*feeder{}, register: newRegister(), halted: make(chan struct{}),
		nudgePoll: wake.Signal(), nudgeTend: wake.Signal(), nudgeUnrunnable: wake.Signal(),
	}
	e.slots = newSlots(o.Workers, p, e.wakeFeeder)
	e.slots.shut = e.room.shut
	e.recorder = newRecorder(e)
	for name, pool := range p.Pools {
		e.feeders[name] = newFeeder(e, pool)
	}
	return e
}

// member is what an executor needs of the replica's membership; *membership.Member is one.
type member interface {
	Session() *membership.Session
	Draining() bool
	Loaded() bool
	StoreFailed(err error)
	WatchEvery() time.Duration
}

// executorHooks are called when something has changed.
type executorHooks struct {
	recorded func(job string, state jobs.State) // an attempt has ended; the state is that of its task then
	outdated func()                             // another configuration governs a pool
}

// feed keeps the workers of all pools busy until ctx is done.
func (s *executor) feed(ctx context.Context) {
	var all sync.WaitGroup
	for _, f := range s.feeders {
		all.Go(func() { f.run(ctx) })
	}
	all.Wait()
}

// haltNow stops everything that runs at once.
func (s *executor) haltNow() { s.halt.Do(func() { close(s.halted) }) }

// look makes the loops read the pools and the running rows now.
func (s *executor) look() {
	wake.Send(s.nudgeTend)
	wake.Send(s.nudgePoll)
}

// enter keeps a drain from ending until leave; it returns false once a drain has begun.
func (s *executor) enter() bool { return s.attempts.enter() }

func (s *executor) leave() { s.attempts.leave() }

// goBy gives each pool's feeder the definition that governs: that in others, else this replica's own.
func (s *executor) goBy(others []ledger.OtherPool) {
	rows := map[string]ledger.OtherPool{}
	for _, row := range others {
		rows[row.Name] = row
	}
	for name, f := range s.feeders {
		g := f.pool.Governs()
		if row, differs := rows[name]; differs {
			g = f.pool.Under(row)
		}
		f.goBy(g)
	}
}

// Wake says that tasks were enqueued in these pools. Without it the next poll finds them.
func (s *executor) Wake(pools ...string) {
	for _, name := range pools {
		s.wakeFeeder(name)
	}
}

func (s *executor) wakeFeeder(pool string) {
	if f, ok := s.feeders[pool]; ok {
		wake.Send(f.wake)
	}
}
