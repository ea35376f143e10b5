package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// tell tells the handlers of these attempts until when they may run now.
func (s *Scheduler) tell(attempts []*attempt) {
	ses := s.session.Load()
	for _, a := range attempts {
		a.bound.Move(a.bounds(ses, s.clock)...)
	}
}

const (
	expireEvery = 250 * time.Millisecond
	lastGrace   = 2 * time.Second
)

// expire stops attempts whose may_run_until comes near, until ctx is done: they get at most
// lastGrace to end by themselves and are killed when the time is over. Once the replica is told to
// stop at once, that holds for all of them. What goes on after it was told to stop is logged. Claimed tasks that wait for a worker too long go back.
func (s *Scheduler) expire(ctx context.Context) {
	halted := s.halted
	for pause(ctx, expireEvery, halted) {
		if s.halting() {
			halted = nil // it has woken us
			s.stopAll(time.Now().Add(haltGrace))
		}
		for _, f := range s.feeders {
			for _, c := range f.overdue() {
				s.handBack(c)
			}
		}
		for _, a := range s.running.all() {
			s.stopBefore(a, s.lastGrace())
			s.sayDeaf(a)
		}
	}
}

// stopBefore tells an attempt to stop that has no more time left than so much.
func (s *Scheduler) stopBefore(a *attempt, left time.Duration) {
	end := a.deadline(s.session.Load(), s.clock)
	if end.IsZero() || end.Until() <= left {
		a.stop(stopExpired, "this replica lost touch with the store, and another one may start in its place", killTime(end))
	}
}

// stopOnTime stops an attempt that has just started at its deadline, if that may come before expire looks at it.
func (s *Scheduler) stopOnTime(a *attempt) (forget func()) {
	left := a.deadline(s.session.Load(), s.clock).Until()
	if left > expireEvery {
		return func() {}
	}
	last := time.AfterFunc(left, func() { s.stopBefore(a, killMargin) })
	return func() { last.Stop() }
}

// lastGrace is how long before its deadline an attempt is told to stop.
func (s *Scheduler) lastGrace() time.Duration {
	return min(s.opt.StopGrace, lastGrace, s.opt.SessionTTL/5)
}

func killTime(end boottime.Instant) time.Time {
	if end.IsZero() {
		return time.Now()
	}
	return end.Time()
}
