package locks

import (
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// pace is when the session is renewed next, or opened if there is none. A call of a caller postpones no renewal: the first one that fails
// brings the next renewal forward, which tells whether the service is still away. Guarded by the Locker's mu.
type pace struct {
	tried     boottime.Instant // when the last opening began, or the last opening or renewal failed; zero: none began yet
	fails     int              // how many openings and renewals failed in a row
	suspected boottime.Instant // when a call failed, the first one since the service last answered; zero: none did
}

// began notes an opening.
func (p *pace) began() { p.tried = boottime.Now() }

// failed notes an opening or a renewal without success.
func (p *pace) failed() {
	p.tried = boottime.Now()
	p.fails++
}

// done notes an opening or a renewal with success.
func (p *pace) done() { p.fails, p.suspected = 0, boottime.Instant{} }

// called notes the result of any call.
func (p *pace) called(err error) {
	switch {
	case err == nil, errors.Is(err, ErrRecovering):
		p.suspected = boottime.Instant{}
	case p.suspected.IsZero():
		p.suspected = boottime.Now()
	}
}

// wait is how long to wait until the next renewal of a session, or the next opening if it is nil.
func (p *pace) wait(s *session) time.Duration {
	switch {
	case p.tried.IsZero(): // the first caller is about to open it
		return maxBackoff
	case s == nil:
		return backoff(p.fails) - p.tried.Elapsed()
	case p.fails > 0:
		return min(backoff(p.fails), s.ttl/10) - p.tried.Elapsed()
	}
	wait := min(s.ttl/3, s.window/2) - s.renewed.Elapsed()
	if !p.suspected.IsZero() {
		wait = min(wait, min(minBackoff, s.ttl/10)-p.suspected.Elapsed())
	}
	return wait
}

// backoff is the pause after so many failures in a row.
func backoff(fails int) time.Duration {
	return min(minBackoff<<min(max(fails-1, 0), 10), maxBackoff)
}
