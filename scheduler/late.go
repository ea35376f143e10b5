package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	lateEvery = time.Second
	lateBatch = 500
)

// late tells of runs that have not started, or ended, when they were expected to, whichever replica has them, until ctx is done.
//
//  1. wait lateEvery
//  2. wait again while no expectation's time has come
//  3. look at a batch of those whose time has come: each is met, or becomes an event
//  4. if there are events, wake what makes notifications of them
//  5. go on with the next batch, while there are more; after an error begin again
func (s *Scheduler) late(ctx context.Context) {
	for wake.Wait(ctx, lateEvery, nil) {
		if a, fresh := s.work.Ahead(); fresh && !s.mayBeLate(a) {
			continue
		}
		for more := true; more && ctx.Err() == nil; {
			cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			found, err := s.store.LateRuns(cctx, s.members.Clock().Check, lateBatch)
			cancel()
			if err != nil {
				s.members.StoreFailed(err)
				break
			}
			for _, e := range found.Events {
				s.log.Warn("run is late", "job", e.Job, "due", e.ScheduledAt, "task", e.TaskID, "reason", e.Reason)
			}
			if len(found.Events) > 0 {
				wake.Send(s.wakeNotify)
			}
			more = found.More
		}
	}
}

// mayBeLate reports whether the time of an expectation has come, by what the last look at the store has found.
func (s *Scheduler) mayBeLate(a ledger.Ahead) bool {
	if a.Expected.IsZero() {
		return false
	}
	return !s.members.Clock().Now().Before(a.Expected.Add(ledger.LateAfter))
}
