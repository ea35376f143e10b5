package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// maxAbandoned is how many acquisitions are to be abandoned for longer than two ttls. The keys of the others stay held until the
// session ends, or this Locker asks for them again.
const maxAbandoned = 1000

// abandoned is an acquisition that may have keys or places at the service which nobody here wants: it was given up, or a call
// for it had no answer.
type abandoned struct {
	acquisition string
	keys        []string
	since       boottime.Instant
}

// abandon leaves an acquisition to sweep. With the Locker's mu held.
func (l *Locker) abandon(s *session, acquisition string, keys ...string) {
	s.abandoned = append(s.abandoned, abandoned{acquisition, keys, boottime.Now()})
	l.wake()
}

// sweep frees what the service may have for the session and nobody here wants, until nothing is left or the session has ended:
//
//  1. release the keys whose release was not confirmed;
//  2. abandon acquisitions. One that the service does not answer for becomes the last;
//  3. after a failure wait, with backoff, and begin again.
func (l *Locker) sweep(ctx context.Context, s *session) {
	for fails := 0; ; {
		l.mu.Lock()
		if s.ended || !s.unswept() {
			s.sweeping = false
			l.mu.Unlock()
			return
		}
		unfreed, given := s.unfreed, s.abandoned
		s.unfreed, s.abandoned = nil, nil
		l.mu.Unlock()

		failed := false
		if len(unfreed) > 0 {
			calling, cancel := l.calling(ctx)
			if s.drv.Release(calling, unfreed) == nil {
				unfreed = nil
			} else {
				failed = true
			}
			cancel()
		}
		for len(given) > 0 {
			first := given[0]
			given = given[1:]
			calling, cancel := l.calling(ctx)
			err := s.drv.Abandon(calling, first.acquisition, first.keys)
			cancel()
			if err != nil {
				failed, given = true, append(given, first)
				break
			}
		}

		l.mu.Lock()
		s.unfreed, s.abandoned = append(s.unfreed, unfreed...), append(s.abandoned, given...)
		s.limit()
		l.mu.Unlock()
		if !failed {
			fails = 0
			continue
		}
		fails++
		select {
		case <-ctx.Done():
		case <-s.over:
		case <-time.After(backoff(fails)):
		}
	}
}

// unswept reports whether the service may have something that nobody here wants. With the Locker's mu held.
func (s *session) unswept() bool { return len(s.unfreed)+len(s.abandoned) > 0 }

// limit forgets those beyond maxAbandoned that are older than two ttls. With the Locker's mu held.
func (s *session) limit() {
	tooMany := len(s.abandoned) - maxAbandoned
	s.abandoned = slices.DeleteFunc(s.abandoned, func(a abandoned) bool {
		tooMany--
		return tooMany >= 0 && a.since.Elapsed() > 2*s.ttl
	})
}

// freeUnexpected frees a key that the service says this session holds, and that has no lease: a request whose acquisition is not
// refused any more, or was forgotten, has arrived. With mu held.
func (l *Locker) freeUnexpected(s *session, key string, holder *Info) {
	if l.holds[key] != nil || l.queues[key] != nil || holder.Session != s.drv.ID() || l.inFlight[key] > 0 {
		return
	}
	s.unfreed = append(s.unfreed, driver.Held{Key: key, Token: holder.Token})
	l.wake()
}
