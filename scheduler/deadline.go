package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Who may stop an attempt, and until when it may run, is decided in this file.
//
//	stopped by       when                                                the attempt
//	its timeout      its context's deadline, see attempt.begin           has failed, and is retried by policy
//	a cancellation   its row says so                                     is cancelled
//	a drain          the drain timeout is over, or a second signal came  is lost, and on_lost decides
//	its deadline     another replica may start in its place              is lost, and on_lost decides
//
// The deadline is the later one of the end of the session's trust window, which each heartbeat moves ahead, and of
// may_run_until of its row, which extend moves ahead. An attempt is told to stop the last grace before it, and to end at
// once killMargin before it.

const (
	expireEvery = 250 * time.Millisecond
	lastGrace   = 2 * time.Second
	// killMargin is how much before the time by which it must be gone a handler is told to end at once.
	killMargin = 100 * time.Millisecond
)

// deadline is when another replica may start in the attempt's place: the last of its bounds; zero if
// it has none.
func (a *attempt) deadline(ses *membership.Session, c *membership.Clock) (end boottime.Instant) {
	for _, b := range a.bounds(ses, c) {
		if end.IsZero() || b.Until() > end.Until() {
			end = b
		}
	}
	return end
}

// bounds are the end of the session's trust window, and of what the row grants. Which of them is
// later may change: they are on different clocks where the machine's sleep does not end a session.
func (a *attempt) bounds(ses *membership.Session, c *membership.Clock) (bounds []boottime.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ses.ID == a.session && !a.orphaned {
		bounds = append(bounds, ses.Trust)
	}
	if !a.mayRun.IsZero() {
		bounds = append(bounds, c.Instant(a.mayRun))
	}
	return bounds
}

// mayBegin reports whether new work may be taken: what begins has more time than the last grace, at the beginning of which an
// attempt is told to end. With less left, as right after an outage of the store, the next beat comes first.
func (s *executor) mayBegin() bool {
	ses := s.member.Session()
	return ses.Trusted() && ses.Trust.Until() > s.lastGrace()
}

// lastGrace is how long before its deadline an attempt is told to stop.
func (s *executor) lastGrace() time.Duration {
	return min(s.opt.StopGrace, lastGrace, s.opt.SessionTTL/5)
}

// tell tells the handlers of these attempts until when they may run now.
func (s *executor) tell(attempts []*attempt) {
	ses := s.member.Session()
	for _, a := range attempts {
		a.bound.Move(a.bounds(ses, s.clock)...)
	}
}

// renewed tells the attempts of a session that was renewed, and moves may_run_until of those that are due for that.
func (s *executor) renewed(ctx context.Context) {
	s.tell(s.register.attempts())
	s.extend(ctx)
}

// extend moves may_run_until of those attempts ahead that have passed a due time of their job
// while they ran: no other replica starts in their place before the next one.
func (s *executor) extend(ctx context.Context) {
	now, ses := s.clock.Now(), s.member.Session()
	var moves []ledger.Extension
	for _, a := range s.register.attempts() {
		j, ok := s.plan.Jobs[a.task.Job]
		if !ok || a.session != ses.ID {
			continue
		}
		if until := j.Until(now); !until.IsZero() && until.After(a.until()) && a.until().Before(now) {
			moves = append(moves, ledger.Extension{TaskID: a.task.ID, Token: a.task.Token, Until: until})
		}
	}
	if len(moves) == 0 {
		return
	}
	ours, err := s.store.Extend(ctx, ses.ID, moves)
	if err != nil {
		return // the old bound holds, and the next heartbeat asks again
	}
	var moved []*attempt
	for i, m := range moves {
		if _, a := s.register.find(claimKey{m.TaskID, m.Token}); ours[i] && a != nil {
			a.setUntil(m.Until)
			moved = append(moved, a)
		}
	}
	s.tell(moved)
}

// expire stops attempts whose deadline comes near, until ctx is done. Once the replica is told to
// stop at once, it stops all of them. What goes on after it was told to stop is logged. Claimed tasks that wait for a worker too long go back.
func (s *executor) expire(ctx context.Context) {
	halted := s.halted
	for wake.Wait(ctx, expireEvery, halted) {
		if s.halting() {
			halted = nil // it has woken us
			s.stopAll(time.Now().Add(haltGrace))
		}
		for _, f := range s.feeders {
			f.handBackOverdue(queuedFor)
		}
		for _, a := range s.register.attempts() {
			s.stopBefore(a, s.lastGrace())
			s.sayDeaf(a)
		}
	}
}

// stopBefore tells an attempt to stop that has no more time left than so much.
func (s *executor) stopBefore(a *attempt, left time.Duration) {
	end := a.deadline(s.member.Session(), s.clock)
	if end.IsZero() || end.Until() <= left {
		a.stop(stopExpired, "this replica lost touch with the store, and another one may start in its place", killTime(end))
	}
}

// stopOnTime stops an attempt that has just started at its deadline, if that may come before expire looks at it.
func (s *executor) stopOnTime(a *attempt) (forget func()) {
	left := a.deadline(s.member.Session(), s.clock).Until()
	if left > expireEvery {
		return func() {}
	}
	return wake.After(left, func() { s.stopBefore(a, killMargin) })
}

func killTime(end boottime.Instant) time.Time {
	if end.IsZero() {
		return time.Now()
	}
	return end.Time()
}

// stopAll stops everything that runs, for a drain, and returns the longest grace period among it; killBy
// zero leaves it that.
func (s *executor) stopAll(killBy time.Time) (grace time.Duration) {
	for _, a := range s.register.attempts() {
		a.stop(stopDrained, "drained", killBy)
		grace = max(grace, a.grace(s.opt.StopGrace, s.log))
	}
	return grace
}

// stopCancelled stops an attempt whose cancellation somebody asked for.
func (a *attempt) stopCancelled(reason string) { a.stop(stopCancelled, reason, time.Time{}) }

// sessionDied marks the attempts of a session that was declared dead: its trust window is no bound of theirs.
func (s *executor) sessionDied(session string) {
	for _, a := range s.register.attempts() {
		if a.session == session {
			a.mu.Lock()
			a.orphaned = true
			a.mu.Unlock()
		}
	}
}

func (a *attempt) until() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mayRun
}

func (a *attempt) setUntil(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mayRun = t
}
