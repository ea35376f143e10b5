package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

const (
	pollLeast = 10 * time.Millisecond
	pollFast  = 50 * time.Millisecond
	pollSlow  = 500 * time.Millisecond
)

// poll asks which pools have work and wakes their feeders, until ctx is done. It asks soon after
// there was some, backs off while there is none, and wakes exactly when the next waiting task is due.
func (s *Scheduler) poll(ctx context.Context) {
	wait := pollFast
	for pause(ctx, wait, s.nudgePoll) {
		if !s.session.Load().trusted() || s.waits() {
			wait = pollSlow
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		pools, next, err := s.store.Ready(cctx)
		cancel()
		if err != nil {
			s.storeFailed(err)
			wait = pollSlow
			continue
		}
		for _, name := range pools {
			s.wakeFeeder(name)
		}
		wait = min(2*wait, pollSlow)
		if len(pools) > 0 {
			wait = pollFast
		}
		if !next.IsZero() {
			wait = max(pollLeast, min(wait, next.Sub(s.clock.now())))
		}
	}
}

const (
	sweepEvery = time.Minute
	sweepBatch = 1000
)

// sweep deletes what is older than its retention, a batch a minute, and at once again while more
// is left.
func (s *Scheduler) sweep(ctx context.Context) {
	r := s.opt.Retention
	keep := ledger.Retention{Triggers: r.Triggers, Succeeded: r.Succeeded, Failed: r.Failed, Output: r.Output}
	for wait := sweepEvery; pause(ctx, wait, nil); {
		cctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		more, err := s.store.Sweep(cctx, keep, sweepBatch)
		cancel()
		wait = sweepEvery
		if err != nil {
			s.storeFailed(err)
		} else if more {
			wait = time.Second
		}
	}
}
