package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// keep runs until Close:
//
//  1. close sessions that ended, and release keys that may be held without a lease (cleanUp, sweep), and look for
//     grants that were not notified;
//  2. wait until the next renewal or opening is due, or wake;
//  3. open a session if there is none, else renew it and find out what was evicted.
func (l *Locker) keep(ctx context.Context) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return
		}
		l.cleanUp(ctx)
		s, wait := l.session, l.pace.wait(l.session)
		l.mu.Unlock()
		switch {
		case wait > 0:
			select {
			case <-ctx.Done():
			case <-l.wakeup:
			case <-time.After(wait):
			}
		case s == nil:
			calling, cancel := l.calling(ctx)
			_ = l.open(calling) // its error is in health
			cancel()
		default:
			l.renew(ctx, s)
		}
	}
}

// cleanUp closes ended sessions and starts sweep, look and hear, in the background. With mu held.
func (l *Locker) cleanUp(ctx context.Context) {
	l.endedSessions = slices.DeleteFunc(l.endedSessions, func(s *session) bool { return s.closing && !s.mayBeThere() })
	for _, s := range l.endedSessions {
		if !s.closing {
			s.closing = true
			l.closing.Go(func() { // to its end, also if Close comes meanwhile, which waits for it
				calling, cancel := l.calling(context.WithoutCancel(ctx))
				defer cancel()
				l.closeSession(calling, s) // if that fails it expires
			})
		}
	}
	if len(l.listeners) > 0 && !l.hearing {
		l.hearing = true
		l.work.Go(func() { l.hear(ctx) })
	}
	s := l.session
	if s != nil && !s.sweeping && s.unswept() {
		s.sweeping = true
		l.work.Go(func() { l.sweep(ctx, s) })
	}
	if s != nil && !s.looking && s.queued {
		s.looking = true
		l.work.Go(func() { l.look(ctx, s) })
	}
}

// sampled is how many of the holds a renewal has verified at most, other ones each time: that finds a key that was deleted at
// the service by hand.
const sampled = 16

// renew renews the session, with one write. If that finds that keys may have been evicted, it checks which.
func (l *Locker) renew(ctx context.Context, s *session) {
	l.mu.Lock()
	left, sample := l.left(s), l.sample(sampled)
	l.mu.Unlock()
	if left <= 0 {
		return
	}
	// Half of what is left: after a call without an answer there is time for another one.
	limit := min(l.opt.CallTimeout, max(left/2, s.ttl/10))
	calling, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked := boottime.Now()
	evicted, err := s.drv.Renew(calling, sample)
	if errors.Is(err, driver.ErrSessionEnded) {
		err = lost(err)
	}
	l.opt.Observer.Renewed(l.backend, asked.Elapsed(), err)
	var held []driver.Held
	l.mu.Lock()
	switch {
	case errors.Is(err, ErrLost):
		l.end(s, err)
	case l.left(s) <= 0:
	case err != nil:
		l.pace.failed()
		l.note(fmt.Errorf("renew: %w", err))
	default:
		s.renewed = asked
		if !errors.Is(l.health.err, ErrRecovering) { // only a grant ends that
			l.note(nil)
		}
		l.pace.done()
		if s.evicted = s.evicted || evicted; s.evicted {
			held = l.held()
		}
	}
	l.mu.Unlock()
	if len(held) > 0 {
		l.verify(ctx, s, held, limit)
	}
}

// held lists all holds. With mu held.
func (l *Locker) held() []driver.Held {
	var held []driver.Held
	for _, h := range l.holds {
		for ; h != nil; h = h.next {
			held = append(held, driver.Held{Key: h.key, Token: h.token})
		}
	}
	return held
}

// sample lists n holds at most, at random: of a key that is held several times each may be one of them. With mu held.
func (l *Locker) sample(n int) []driver.Held {
	var held []driver.Held
	for _, h := range l.holds { // in an order that is random
		if len(held) == n {
			break
		}
		first := len(held)
		for seen := 0; h != nil; h, seen = h.next, seen+1 { // a reservoir: Vitter's algorithm R
			one := driver.Held{Key: h.key, Token: h.token}
			if len(held) < n {
				held = append(held, one)
			} else if at := first + rand.IntN(seen+1); at < n {
				held[at] = one
			}
		}
	}
	return held
}

func (l *Locker) verify(ctx context.Context, s *session, held []driver.Held, limit time.Duration) {
	calling, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	still, err := s.drv.Check(calling, held)
	if err != nil {
		if errors.Is(err, driver.ErrSessionEnded) {
			l.lose(s, err)
		}
		return // the next renewal checks again, and notes whether the service is available
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.evicted = false
	for i, ok := range still {
		if h := l.find(held[i].Key, held[i].Token); !ok && h != nil {
			l.force(h)
		}
	}
}
