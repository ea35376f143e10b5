package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// maxUnresolved is how many are kept for longer than two ttls. The keys of the others stay busy until the
// session ends, or this Locker asks for them again.
const maxUnresolved = 1000

// unresolved is an acquisition without an answer: the session may hold its keys until it ends. Keys with an
// answer are left out: those that were granted have leases.
//
//	no answer ──▶ settled: the service answered for the same id, granted keys were released
//	          ──▶ asked again a ttl after the first try ──▶ forgotten
type unresolved struct {
	acquisition string
	wants       []driver.Want
	asked       boottime.Instant
	settled     bool // the service answered once
	// delayed are keys that were busy when they were asked for again: the first request may arrive when
	// they are free.
	delayed []driver.Want
}

// sweep frees keys that may be held without a lease, until none is left or the session has ended:
//
//  1. resolve each acquisition without an answer by asking again under the same id: what was granted then,
//     or is granted now, has a token and can be released;
//  2. release those keys, and the keys whose release was not confirmed;
//  3. abandon the places that were given up: what was granted to them meanwhile is freed;
//  4. after failures wait, with backoff, and begin again.
//
// An acquisition is asked for once more a ttl after the first try, for a delayed request. That call must be
// answered within another ttl: a service that is unavailable for so long has expired the session.
func (l *Locker) sweep(ctx context.Context, s *session) {
	for fails := 0; ; {
		l.mu.Lock()
		if s.ended || !s.unswept() {
			s.sweeping = false
			l.mu.Unlock()
			return
		}
		unresolvedCalls, unfreed, abandoned := slices.Clone(s.unresolvedCalls), s.unfreed, s.abandoned
		s.unfreed, s.abandoned = nil, nil
		l.mu.Unlock()

		failed := false
		for _, d := range unresolvedCalls {
			if d.settled && d.asked.Elapsed() < s.ttl {
				continue
			}
			granted, err := l.settle(ctx, s, d)
			unfreed = append(unfreed, granted...)
			if err != nil {
				failed = true
				l.postpone(s, d)
				break
			}
		}
		if len(unfreed) > 0 {
			calling, cancel := l.calling(ctx)
			err := s.drv.Release(calling, unfreed)
			cancel()
			if err == nil {
				unfreed = nil
			} else {
				failed = true
			}
		}
		for len(abandoned) > 0 {
			calling, cancel := l.calling(ctx)
			err := s.queue.Abandon(calling, abandoned[0].Acquisition, []string{abandoned[0].Key})
			cancel()
			if err != nil {
				failed = true
				break
			}
			abandoned = abandoned[1:]
		}

		wait := maxBackoff
		if fails++; failed {
			wait = backoff(fails)
		} else {
			fails = 0
		}
		l.mu.Lock()
		s.unfreed, s.abandoned = append(s.unfreed, unfreed...), append(s.abandoned, abandoned...)
		s.limit()
		idle := !s.unswept()
		l.mu.Unlock()
		if idle {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.over:
		case <-time.After(wait):
		}
	}
}

// unswept reports whether the service may have something that is not wanted here. With the Locker's mu held.
func (s *session) unswept() bool { return len(s.unresolvedCalls)+len(s.unfreed)+len(s.abandoned) > 0 }

// settle asks for the outcome of d and returns the keys to release.
func (l *Locker) settle(ctx context.Context, s *session, d *unresolved) (granted []driver.Held, err error) {
	late := d.asked.Elapsed() >= s.ttl
	calling, cancel := l.calling(ctx)
	defer cancel()
	results, err := s.drv.TryAcquire(calling, d.acquisition, d.wants)
	for i, r := range results {
		if r.Token > 0 {
			granted = append(granted, driver.Held{Key: d.wants[i].Key, Token: r.Token})
		}
		if r.Err != nil {
			err = r.Err
		}
	}
	if err != nil {
		return granted, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.settled = true
	if late { // that was the last time
		s.unresolvedCalls = slices.DeleteFunc(s.unresolvedCalls, func(other *unresolved) bool { return other == d })
	}
	return granted, nil
}

// postpone makes d the last to be settled.
func (l *Locker) postpone(s *session, d *unresolved) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(s.unresolvedCalls, func(other *unresolved) bool { return other == d })
	s.unresolvedCalls = append(others, d)
}

// limit forgets those beyond maxUnresolved that are older than two ttls. With the Locker's mu held.
func (s *session) limit() {
	tooMany := len(s.unresolvedCalls) - maxUnresolved
	s.unresolvedCalls = slices.DeleteFunc(s.unresolvedCalls, func(d *unresolved) bool {
		tooMany--
		return tooMany >= 0 && d.asked.Elapsed() > 2*s.ttl
	})
}

// freeUnexpected frees a key that the service says this session holds, and that has no lease: a request that
// was given up arrived after sweep had forgotten it. With mu held.
func (l *Locker) freeUnexpected(s *session, key string, holder *Info) {
	if l.holds[key] != nil || l.lines[key] != nil || holder.Session != s.drv.ID() || l.inFlight[key] > 0 {
		return
	}
	s.unfreed = append(s.unfreed, driver.Held{Key: key, Token: holder.Token})
	l.wake()
}
