package scheduler

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// executor is the work of a replica: it claims tasks, executes them and records their results.
type executor struct {
	member  member
	store   ledger.Tasks
	opt     Options
	log     *slog.Logger
	clock   *membership.Clock
	locks   *membership.LockService
	plan    *plan.Plan
	metrics Metrics
	on      executorHooks

	slots    *slots
	room     room
	feeders  map[string]*feeder
	register *register
	recorder *recorder
	attempts gate
	halted   chan struct{} // closed when everything is to stop at once

	metUnknown      atomic.Bool   // a task that this replica has no handler for
	nudgePoll       chan struct{} // look at the pools now
	nudgeTend       chan struct{} // look at own and orphaned rows now
	nudgeUnrunnable chan struct{} // look at what waits for nobody now
}

// member is what work needs of the replica's membership; *membership.Member is one.
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

// Wake says that tasks were enqueued in these pools. Without it they are noticed one poll later.
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
