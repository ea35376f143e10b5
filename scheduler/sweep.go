package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	sweepEvery = time.Minute
	sweepBatch = 1000
	sweepPause = 20 * time.Millisecond
)

// sweep deletes what is older than its retention, until ctx is done.
//
//  1. wait a minute; if the last batch left more, only as long as that took, so that half of the time is left to others
//  2. delete a batch
//
// A thousand tasks take some tens of milliseconds: one replica keeps up with what a pool ends at full speed.
func (s *Scheduler) sweep(ctx context.Context) {
	for wait := sweepEvery; wake.Wait(ctx, wait, nil); {
		began := time.Now()
		cctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		more, err := s.store.Sweep(cctx, s.members.Clock().Check, s.opt.Retention, sweepBatch)
		cancel()
		wait = sweepEvery
		if err != nil {
			s.members.StoreFailed(err) // of one kind; more is about the others
		}
		if more {
			wait = max(sweepPause, time.Since(began))
		}
	}
}
