package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session is one session at the service, with its deadline. Fields that change are guarded by the
// Locker's mu.
//
//	open ──▶ renewed … renewed ──▶ ended: closed, expired at the service, or past its deadline
type session struct {
	drv       driver.Session
	queue     driver.Queue // nil: the service has none
	ttl       time.Duration
	window    time.Duration // the trust window of a renewal
	over      chan struct{} // closed when the session ended
	renewed   boottime.Instant
	ended     bool
	refused   bool          // the service has said that it ended
	unfreed   []driver.Held // released here, not confirmed by the service
	abandoned []abandoned
	evicted   bool // a key may have been, and no Check has told which
	sweeping  bool
	queued    bool // look is due
	looking   bool
	closing   bool  // it has ended, and is being closed
	unclosed  error // why that failed
}

func (s *session) deadline() boottime.Instant { return s.renewed.Add(s.window) }

// mayBeThere reports whether the service may still have a session that ended.
func (s *session) mayBeThere() bool { return !s.refused && s.renewed.Elapsed() < s.ttl }

// trusted returns how long a session may be trusted after a renewal was sent. The slack covers
// clocks that run at different speeds.
func trusted(ttl, margin time.Duration) time.Duration {
	return ttl - max(ttl/100, 50*time.Millisecond) - margin
}

// open opens a session if there is none. One caller at a time does it; the others wait.
func (l *Locker) open(ctx context.Context) error {
	select {
	case l.opening <- struct{}{}:
	case <-ctx.Done():
		return unavailable(fmt.Errorf("waiting for the session to open: %w", context.Cause(ctx)))
	}
	defer func() { <-l.opening }()

	l.mu.Lock()
	if l.session != nil || l.closed {
		defer l.mu.Unlock()
		if l.closed {
			return unavailable(errClosed)
		}
		return nil
	}
	l.health.tried = boottime.Now()
	l.pace.began()
	l.mu.Unlock()

	asked := boottime.Now()
	drv, err := l.drv.Open(ctx, driver.Open{Namespace: l.opt.Namespace, TTL: l.opt.TTL, Owner: l.opt.Owner})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		err = explain(ctx, err)
		if !l.givenUp(ctx) {
			l.pace.failed()
			l.note(err)
		}
		return unavailable(err)
	}
	s := &session{drv: drv, queue: drv.Queue(), ttl: drv.TTL(), over: make(chan struct{}), renewed: asked}
	s.window = trusted(s.ttl, l.drv.Caps().TrustMargin)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.window <= 0:
		l.endedSessions = append(l.endedSessions, s)
		err = fmt.Errorf("the service agreed to a ttl of %v, which is too short to be trusted", s.ttl)
		l.pace.failed()
		l.note(err)
		return unavailable(err)
	case l.closed:
		l.endedSessions = append(l.endedSessions, s)
		return unavailable(errClosed)
	}
	l.health.reached = true
	l.session = s
	l.pace.done()
	l.note(nil)
	l.work.Go(func() { l.watch(s) })
	l.wake()
	return nil
}

// onSession runs one call on the session, and once more on a new one if that turns out to have ended: then the call has
// done nothing.
func (l *Locker) onSession(ctx context.Context, do func(s *session) error) error {
	var err error
	for range 2 {
		s, down := l.current(ctx)
		if down != nil {
			return down
		}
		if err = do(s); !errors.Is(err, driver.ErrSessionEnded) {
			break
		}
		l.lose(s, err)
	}
	return err
}

// current returns the session, and opens it if there is none.
func (l *Locker) current(ctx context.Context) (*session, error) {
	for range 2 {
		l.mu.Lock()
		err, s := l.down(), l.session
		if s != nil && l.left(s) <= 0 {
			s = nil
		}
		l.mu.Unlock()
		if err != nil || s != nil {
			return s, err
		}
		if err := l.open(ctx); err != nil {
			return nil, err
		}
	}
	return nil, unavailable(errors.New("the session ended as soon as it was open"))
}

// call runs one call that grants nothing, on a new session if the old one has expired.
func (l *Locker) call(ctx context.Context, do func(context.Context, driver.Session) error) error {
	if err := l.start(); err != nil { //nolint:contextcheck // what it starts outlives the call
		return err
	}
	calling, cancel := l.calling(ctx)
	defer cancel()
	return l.onSession(calling, func(s *session) error { return do(calling, s.drv) })
}

// watch ends the session when the driver reports its expiry, or at its deadline, also while a call is under way. It
// receives the grants that were waited for.
func (l *Locker) watch(s *session) {
	l.mu.Lock()
	timer := time.NewTimer(s.deadline().Until())
	l.mu.Unlock()
	defer timer.Stop()
	var granted <-chan driver.Grant
	if s.queue != nil {
		granted = s.queue.Granted()
	}
	for {
		select {
		case <-s.over:
			return
		case g := <-granted:
			l.notified(s, g)
		case <-s.drv.Ended():
			l.lose(s, driver.ErrSessionEnded)
			return
		case <-timer.C:
			l.mu.Lock()
			timer.Reset(l.left(s)) // if nothing is left, it has ended
			l.mu.Unlock()
		}
	}
}

// left is the rest of the trust window. At zero it ends the session, and no late answer revives
// it. With mu held.
func (l *Locker) left(s *session) time.Duration {
	if s.ended {
		return 0
	}
	left := s.deadline().Until()
	if left <= 0 {
		cause := fmt.Errorf("%w: not renewed for %v", ErrLost, s.window)
		switch why := l.health.err; {
		case errors.Is(why, ErrRecovering):
			cause = fmt.Errorf("%w: %v", cause, why) //nolint:errorlint // it is lost, which is another outcome
		case why != nil:
			cause = fmt.Errorf("%w: %w", cause, why)
		}
		l.end(s, cause)
	}
	return left
}

// lose ends the session for a cause that the service reported.
func (l *Locker) lose(s *session, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(s, lost(cause))
}

func lost(cause error) error { return fmt.Errorf("%w: %w", ErrLost, cause) }

// end ends the session and all leases under it. With mu held.
func (l *Locker) end(s *session, cause error) {
	if s.ended {
		return
	}
	s.ended, s.refused = true, errors.Is(cause, driver.ErrSessionEnded)
	close(s.over)
	l.session = nil
	l.refresh()
	count := 0
	for _, h := range l.holds {
		for ; h != nil; h = h.next {
			l.freed(h)
			h.finish(cause)
			count++
		}
	}
	if errors.Is(cause, ErrLost) {
		l.opt.Observer.Lost(l.backend, count, cause)
	}
	clear(l.holds)
	l.restart()
	l.endedSessions = append(l.endedSessions, s)
	l.wake()
}
