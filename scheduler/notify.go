package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	notifyEvery = time.Second
	// notifyPause lies between two rounds, however many events there are: jobs come before notifications.
	notifyPause = 100 * time.Millisecond
	notifyBatch = 500
)

// notify makes tasks of the events that have a notification, whichever replica wrote them, until ctx is done. The tasks are
// executed like all others.
//
//  1. wait notifyEvery, or until woken
//  2. unless woken, wait again while there are no events
//  3. route a batch of events, the oldest first: each becomes a task, is dropped, or is left
//  4. if tasks were made, wake the feeder of their pool
//  5. after notifyPause, route the next batch, while there are more events; after an error begin again
func (s *Scheduler) notify(ctx context.Context) {
	for {
		began := time.Now()
		if !wake.Wait(ctx, notifyEvery, s.wakeNotify) {
			return
		}
		if a, fresh := s.work.Ahead(); fresh && !a.Events && time.Since(began) >= notifyEvery {
			continue
		}
		for after, more := "", true; more; {
			cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			done, err := s.store.Notify(cctx, ledger.Notify{After: after, Limit: notifyBatch, Route: s.plan.Load().Route})
			cancel()
			if errors.Is(err, jobs.ErrUnavailable) {
				s.members.StoreFailed(err)
				break
			} else if err != nil { // such as while a newer configuration takes the pool away
				s.log.Warn("notifications delayed; retrying", "error", err)
				break
			}
			if done.Tasks > 0 {
				s.work.Wake(naming.NotificationsPool)
			}
			after, more = done.Last, done.More
			if !wake.Wait(ctx, notifyPause, nil) {
				return
			}
		}
	}
}
