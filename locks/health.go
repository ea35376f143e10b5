package locks

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// health is what the last calls told about the service.
type health struct {
	up      bool // a session is open and the last call was answered
	since   time.Time
	err     error            // of the last call
	tried   boottime.Instant // when a caller, or an opening, last tried an unavailable service, or a call failed
	reached bool             // at least one session was opened
}

// State is what a Locker knows about its service.
type State struct {
	Up      bool      // a session is open and the last call was answered
	Since   time.Time // of the last change of Up
	Err     error     // why it is not up; nil before the first use, and while a lost session is replaced
	Session string    // "" if none is open
}

// State returns the present state, without a call.
func (l *Locker) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := State{Up: l.health.up, Since: l.health.since, Err: l.health.err}
	if l.session != nil {
		st.Session = l.session.drv.ID()
	}
	return st
}

// note records the result of a call, unless givenUp. With mu held.
func (l *Locker) note(err error) {
	l.pace.called(err)
	if l.health.err = err; err != nil {
		l.health.tried = boottime.Now()
		l.wake()
	}
	l.refresh()
}

// refresh computes up, and since when. With mu held.
func (l *Locker) refresh() {
	if up := l.session != nil && l.health.err == nil; up != l.health.up {
		l.health.up, l.health.since = up, time.Now()
	}
}

// down returns the error of an unavailable service that was tried less than a second ago; nil: the
// caller tries it. With mu held.
func (l *Locker) down() error {
	h := &l.health
	if h.err == nil || l.session != nil && errors.Is(h.err, ErrRecovering) {
		return nil
	}
	if len(l.opening) == 0 && h.tried.Elapsed() >= maxBackoff {
		h.tried = boottime.Now()
		return nil
	}
	return unavailable(h.err)
}

func unavailable(err error) error {
	if errors.Is(err, ErrRecovering) || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
