package scheduler

import (
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// executor is the work of a replica: it claims tasks, executes them and records their results.
type executor struct {
	*member
	store   ledger.Tasks
	locks   Locks // nil: the lock service is the store's own database, its rows are the guards
	plan    *plan
	metrics Metrics
	backend string // of locks, for metrics
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
		nudge(f.wake)
	}
}
