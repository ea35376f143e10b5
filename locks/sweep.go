package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// mostDoubts is how many are kept beyond two ttls: where more are never answered for, some keys stay busy until the
// session ends, or somebody of this process asks for them again.
const mostDoubts = 1000

// doubt is an acquisition whose answer never came: its keys may be held in our name, for as long as
// the session lives. It has no keys for which the answer came: those that were granted have leases.
type doubt struct {
	acquisition string
	wants       []driver.Want
	asked       boottime.Instant
	settled     bool // the service said once what became of it
	// belated are keys that somebody else had when they were asked for again: the first request may arrive when
	// they are free.
	belated []driver.Want
}

// sweep frees what may be held though nobody uses it, and ends when there is nothing left to do or
// the session is over. A doubt is settled by asking again under the same id: what was granted then,
// or is granted now, has a token and can be released. It is asked once more a ttl after the first
// try, for a request that was on its way for long. That one has to be answered, too, within another
// ttl: a service that is away for so long has ended the session.
func (l *Locker) sweep(ctx context.Context, s *session) {
	for fails := 0; ; {
		l.mu.Lock()
		doubts, unfreed := slices.Clone(s.doubts), s.unfreed
		s.unfreed = nil
		if s.ended || len(doubts)+len(unfreed) == 0 {
			s.sweeping = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()

		failed := false
		for _, d := range doubts {
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

		wait := maxBackoff
		if fails++; failed {
			wait = backoff(fails)
		} else {
			fails = 0
		}
		l.mu.Lock()
		s.unfreed = append(s.unfreed, unfreed...)
		s.limit()
		idle := len(s.doubts)+len(s.unfreed) == 0
		l.mu.Unlock()
		if !idle {
			s.pause(ctx, wait)
		}
	}
}

// settle asks what became of d and returns what has to be released now.
func (l *Locker) settle(ctx context.Context, s *session, d *doubt) (granted []driver.Held, err error) {
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
		s.doubts = slices.DeleteFunc(s.doubts, func(other *doubt) bool { return other == d })
	}
	return granted, nil
}

// postpone makes d the last doubt to be settled.
func (l *Locker) postpone(s *session, d *doubt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(s.doubts, func(other *doubt) bool { return other == d })
	s.doubts = append(others, d)
}

// limit forgets the doubts that are too many, of those that are older than two ttls. With the Locker's mu held.
func (s *session) limit() {
	tooMany := len(s.doubts) - mostDoubts
	s.doubts = slices.DeleteFunc(s.doubts, func(d *doubt) bool {
		tooMany--
		return tooMany >= 0 && d.asked.Elapsed() > 2*s.ttl
	})
}

// exorcise frees a key that the service says we hold and of which we know nothing: a request that
// was given up arrived later than sweep waited for it. With mu held.
func (l *Locker) exorcise(s *session, key string, holder *Info) {
	if h := l.holds[key]; h != nil || holder.Session != s.drv.ID() || l.inFlight[key] > 0 {
		return
	}
	s.unfreed = append(s.unfreed, driver.Held{Key: key, Token: holder.Token})
	l.wake()
}

// pause waits for d, the end of the session or of ctx.
func (s *session) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.over:
	case <-timer.C:
	}
}
