package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	sweepEvery = time.Minute
	sweepBatch = 1000
)

// sweep deletes what is older than its retention, a batch a minute, and at once again while more
// is left.
func (s *Scheduler) sweep(ctx context.Context) {
	for wait := sweepEvery; wake.Wait(ctx, wait, nil); {
		cctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		more, err := s.store.Sweep(cctx, s.members.Clock().Check, s.opt.Retention, sweepBatch)
		cancel()
		wait = sweepEvery
		if err != nil {
			s.members.StoreFailed(err)
		} else if more {
			wait = time.Second
		}
	}
}
