package why

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// passing are the causes that end at a known time, or as tasks of the pool end. When any other ends is not known.
func passing(c wire.Cause) bool {
	switch c.Code {
	case reason.NotDue, reason.Backoff, reason.Snoozed, reason.MaxRunning, reason.Rate, reason.WorkersBusy, reason.BehindOthers, reason.Ready, reason.NoRoom, reason.ClaimLost:
		return true
	case reason.Paused:
		return !c.Until.IsZero()
	case reason.WaitsForKey, reason.WaitsForKind:
		return c.Limit == byRate
	}
	return false
}

// start estimates when the task starts: at the latest of the times at which its causes end, and when those before it have had their turn at the
// pace of the pool.
func (p *pending) start(causes []wire.Cause) *wire.Start {
	s := &wire.Start{Ahead: p.Ahead.N, More: p.Ahead.More, Ends: p.Pace.Ends, Since: p.Pace.Since, PerSecond: p.Pace.PerSecond(p.At)}
	at, waits := p.At, p.Ahead.N > 0
	for _, c := range causes {
		if !passing(c) {
			s.Unknown = "it is not known when this ends: " + c.Message
			return s
		}
		if c.Until.After(at) {
			at = c.Until
		}
		waits = waits || c.Code == reason.MaxRunning || c.Code == reason.WorkersBusy
	}
	var opens time.Duration // for those before it, and for it
	if p.Pool != nil && p.Pool.Rate != (jobs.Rate{}) {
		if opens = p.Pool.OpensFor(p.Ahead.N+1, p.Bucket, p.At); p.At.Add(opens).After(at) {
			at = p.At.Add(opens)
		}
	}
	switch {
	case !waits && at.Equal(p.At):
		s.Basis = "nothing is before it"
	case !waits:
		s.Basis = "the time at which it may start; nothing is before it now"
	case s.PerSecond == 0 && opens > 0:
		s.NotBefore = true
		s.Basis = fmt.Sprintf("%s before it, and the rate of the pool, %s; nothing of it has ended of late", tasks(p.Ahead, "ready task"), p.Pool.Rate)
	case s.PerSecond == 0:
		s.Unknown = fmt.Sprintf("there is no pace to go by: no task of pool %s that had started has ended within the last %s", p.Task.Pool, p.At.Sub(p.Pace.Since).Round(time.Second))
		return s
	default:
		turn := p.At.Add(time.Duration(float64(p.Ahead.N+1) / s.PerSecond * float64(time.Second)))
		if s.NotBefore = p.Ahead.More; !turn.After(at) {
			s.Basis = fmt.Sprintf("%s before it, which will have started by then at the pace of the pool; what lasts longer is %s", tasks(p.Ahead, "ready task"), p.lasts(opens, at))
			break
		}
		at = turn
		s.Basis = fmt.Sprintf("%s before it, and %.3g tasks of the pool a second, as %d have ended since %s", tasks(p.Ahead, "ready task"), s.PerSecond, s.Ends, clock(s.Since))
	}
	if p.Task.Attempt == 0 && !p.Task.ExpiresAt.IsZero() && p.Task.ExpiresAt.Before(at) {
		s.Unknown, s.Basis, s.NotBefore = "it expires first, at "+clock(p.Task.ExpiresAt), "", false
		return s
	}
	s.At = at.Truncate(time.Microsecond)
	return s
}

// lasts is what decides when a task may start that those before it do not hold up until then.
func (p *pending) lasts(opens time.Duration, at time.Time) string {
	if opens > 0 && p.At.Add(opens).Equal(at) {
		return "the rate of the pool, " + p.Pool.Rate.String()
	}
	return "its own time"
}
