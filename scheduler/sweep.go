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

// sweep deletes what is older than its retention, until ctx is done.
//
//  1. wait a minute, or a second if the last batch left more
//  2. delete a batch
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
