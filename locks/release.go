package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Release releases leases of this Locker, all in one call. It returns what [Lease.Release] does;
// errors of several leases are joined. Nil leases, as of a busy [Attempt], are left out.
func (l *Locker) Release(ctx context.Context, leases ...*Lease) error {
	s, held, errs := l.drop(leases)
	if len(held) > 0 {
		if err := l.free(ctx, s, held); err != nil {
			errs = append(errs, fmt.Errorf("locks: release: %w", err))
		}
	}
	return errors.Join(errs...)
}

// drop ends leases, and returns the holds that no lease shares any more, with calls in flight counted.
func (l *Locker) drop(leases []*Lease) (s *session, held []driver.Held, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		if lease == nil || lease.hold == nil {
			continue
		}
		if lease.locker != l {
			errs = append(errs, fmt.Errorf("locks: release %s: a lease of another Locker", lease.Key()))
			continue
		}
		switch err := l.check(lease); {
		case errors.Is(err, ErrReleased): // before, or by Close
		case err != nil:
			errs = append(errs, fmt.Errorf("locks: release %s: %w", lease.Key(), gone(err)))
		default:
			h := lease.hold
			lease.released = ErrReleased
			lease.cancel(ErrReleased)
			if delete(h.leases, lease); len(h.leases) == 0 {
				delete(l.holds, h.key)
				l.inFlight[h.key]++
				held = append(held, driver.Held{Key: h.key, Token: h.token})
			}
		}
	}
	return l.session, held, errs
}

// free asks the service to free keys, whose calls in flight were counted. Keys that are not confirmed
// are left to sweep, as are all while the service is unavailable.
func (l *Locker) free(ctx context.Context, s *session, held []driver.Held) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.down()
	if err == nil {
		calling, cancel := l.calling(ctx)
		defer cancel()
		l.mu.Unlock()
		err = explain(calling, s.drv.Release(calling, held))
		l.mu.Lock()
		if err != nil && !s.ended && !l.givenUp(calling) && !errors.Is(err, driver.ErrSessionEnded) {
			l.note(err)
		}
	}
	for _, h := range held {
		l.landed(h.Key)
	}
	switch {
	case err == nil, s.ended:
		return nil
	case errors.Is(err, driver.ErrSessionEnded):
		l.end(s, lost(err))
		return nil
	}
	s.unfreed = append(s.unfreed, held...)
	l.wake()
	return err
}

// landed counts one call about the key as ended. With mu held.
func (l *Locker) landed(key string) {
	if l.inFlight[key]--; l.inFlight[key] == 0 {
		delete(l.inFlight, key)
	}
}
