package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Release releases leases of this Locker, all in one call. It returns what [Lease.Release] does;
// errors of several leases are joined. Nil leases, as of a busy [Attempt], are left out.
func (l *Locker) Release(ctx context.Context, leases ...*Lease) error {
	return l.giveBack(ctx, ErrReleased, leases...)
}

// giveBack releases leases, which end with a cause.
func (l *Locker) giveBack(ctx context.Context, cause error, leases ...*Lease) error {
	s, held, awaited, errs := l.drop(leases, cause)
	if len(held) > 0 {
		if err := l.free(ctx, s, held, awaited); err != nil {
			errs = append(errs, fmt.Errorf("locks: release: %w", err))
		}
	}
	return errors.Join(errs...)
}

// drop ends leases. It returns the holds that no lease shares any more, with calls in flight counted, and those of them that
// queues wait for.
func (l *Locker) drop(leases []*Lease, cause error) (s *session, held []driver.Held, awaited []*hold, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.left(l.session) // ends all leases past its deadline: those of earlier sessions have ended
	}
	for _, lease := range leases {
		if lease == nil || lease.hold == nil {
			continue
		}
		if lease.locker != l {
			errs = append(errs, fmt.Errorf("locks: release %s: a lease of another Locker", lease.Key()))
			continue
		}
		switch err := lease.why(); {
		case errors.Is(err, ErrReleased): // before, or by Close
		case err != nil:
			errs = append(errs, fmt.Errorf("locks: release %s: %w", lease.Key(), gone(err)))
		default:
			h := lease.hold
			lease.released = cause
			lease.end(cause)
			h.leases = slices.DeleteFunc(h.leases, func(other *Lease) bool { return other == lease })
			if len(h.leases) == 0 {
				held = append(held, driver.Held{Key: h.key, Token: h.token})
				l.inFlight[h.key]++
				l.forget(h)
				l.freed(h)
				if l.awaiting(h) != nil {
					awaited = append(awaited, h)
				}
			}
		}
	}
	return l.session, held, awaited, errs
}

// free asks the service to free keys, whose calls in flight were counted, and in the same call for the place of the first queue that
// waits for one of them. The waiters of the others ask after it: the key that one asks for before is not free. Keys that are
// not confirmed are left to sweep, as are all while the service is unavailable.
func (l *Locker) free(ctx context.Context, s *session, held []driver.Held, awaited []*hold) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.down()
	if err == nil {
		calling, cancel := l.calling(ctx)
		defer cancel()
		if q := l.firstAwaiting(awaited); q != nil && s.queue != nil {
			err = l.releaseAndAsk(calling, s, held, q)
		} else {
			l.mu.Unlock()
			err = explain(calling, s.drv.Release(calling, held))
			l.mu.Lock()
			if err != nil && !s.ended && !l.givenUp(calling) && !errors.Is(err, driver.ErrSessionEnded) {
				l.note(err)
			}
		}
	}
	for _, h := range awaited {
		l.resume(h)
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

// releaseAndAsk frees keys, and asks for the place of the first waiter of a queue, in one call. With mu held, but not during the
// call.
func (l *Locker) releaseAndAsk(ctx context.Context, s *session, held []driver.Held, q *waitQueue) error {
	q.after = nil
	next := []*waiter{q.first()}
	id, places := l.take(s, next)
	l.mu.Unlock()
	began := time.Now()
	results, err := s.queue.Acquire(ctx, id, held, wants(next))
	took := time.Since(began)
	l.mu.Lock()
	outcome, _ := l.answer(ctx, next, places, results, err)
	outcome.Took = took
	q.tell()
	l.opt.Observer.Asked(l.backend, outcome)
	return explain(ctx, err)
}

// landed counts one call about the key as ended. With mu held.
func (l *Locker) landed(key string) {
	if l.inFlight[key]--; l.inFlight[key] == 0 {
		delete(l.inFlight, key)
	}
}

// gone is the error of releasing a lease that had ended before, for a cause.
func gone(cause error) error {
	if errors.Is(cause, ErrForced) {
		return fmt.Errorf("%w: %w", ErrLost, cause)
	}
	return cause
}
