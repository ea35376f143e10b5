package scheduler

import (
	"context"
	"errors"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// tryLocks tries each key. Besides the attempts, of which some may have a lease, there is an error if
// the service did not say of each key whether it is busy.
func (s *executor) tryLocks(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	attempts, err := s.locks.TryAcquire(ctx, requests...)
	for _, a := range attempts {
		if a.Err != nil && !errors.Is(a.Err, locks.ErrBusy) {
			err = a.Err
		}
	}
	return attempts, err
}

// lockFailed notes whether the lock service answers, and reports whether it does not.
func (s *executor) lockFailed(err error) bool {
	if err == nil {
		s.health.lockUp()
		return false
	}
	if !errors.Is(err, context.Canceled) {
		s.health.lockDown(err)
	}
	return true
}

// waits reports whether nothing may start because the lock service is away.
func (s *executor) waits() bool {
	return s.locks != nil && s.opt.WhenDown == DownWait && s.health.lockIsDown()
}
