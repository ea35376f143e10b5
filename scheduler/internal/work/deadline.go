package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// This file decides what may stop an attempt, and until when the attempt may run.
//
//	stopped by       when                                                the attempt
//	its timeout      its context's deadline, see attempt.begin           has failed, and is retried by policy
//	a cancellation   its row says so                                     is cancelled
//	a drain          the drain timeout is over, or a second signal came  is lost, and on_lost decides
//	its deadline     another replica may start in its place              is lost, and on_lost decides
//	a lost lock      the lease is lost, or could not be renewed in time  has failed, and is retried by policy; see lease.go
//
// The deadline is the later one of two times: the end of the session's trust window, which each heartbeat moves ahead, and
// may_run_until of the row, which extend moves ahead. With locks it is the deadline of the first lease, if that is earlier. An
// attempt is told to stop the last grace before its deadline, and to end at once killMargin before it.
//
// What is decided in other files:
//
//	what                                       where                     why there
//	may_run_until of what becomes running      plan, Job.Until            the transaction that claims or decides asks, with its time
//	which end holds, of several                attempt.go, stop          the attempt keeps its reason and its timer
//	how long the drain waits for attempts      drain.go                  it ends the replica; by when they must end is here
//	until when the job of a lost attempt is    store/reap.go             the replica may be gone, and its row says until when
//	busy, and its task waits                                             the attempt may run

const (
	expireEvery = 250 * time.Millisecond
	lastGrace   = 2 * time.Second
	// haltGrace is how long work may take to end by itself when the replica is told to stop at once.
	haltGrace = time.Second
	// killMargin is how long before the time by which it must have ended a handler is told to end at once.
	killMargin = 100 * time.Millisecond
)

// deadline is when another replica may start the task: the latest of the attempt's bounds but for its locks; zero if it has none.
func (a *attempt) deadline(ses *membership.Session, c *membership.Clock) (end boottime.Instant) {
	for _, b := range a.ownBounds(ses, c) {
		if end.IsZero() || b.Until() > end.Until() {
			end = b
		}
	}
	return end
}

// bounds are ownBounds, and none of them later than the deadline of a lease without which the attempt must not run; where there is such
// a lease, also the last of them.
func (a *attempt) bounds(ses *membership.Session, c *membership.Clock) (bounds []boottime.Instant, last toldEnd) {
	bounds = a.ownBounds(ses, c)
	_, end := a.lockEnd()
	if end.IsZero() { // most have no locks: the clock is not read
		return bounds, last
	}
	for i, b := range bounds {
		ofLock := end.Until() < b.Until()
		if ofLock {
			bounds[i] = end
		}
		if last.end.IsZero() || bounds[i].Until() > last.end.Until() {
			last = toldEnd{bounds[i], ofLock}
		}
	}
	return bounds, last
}

// startBy is when the attempt must have been started.
func (a *attempt) startBy(ses *membership.Session) boottime.Instant {
	if _, end := a.lockEnd(); !end.IsZero() && end.Until() < ses.Trust.Until() {
		return end
	}
	return ses.Trust
}

// ownBounds are the end of the session's trust window, and may_run_until of the row. Which of them is later may change:
// they are on different clocks where a sleep of the machine does not end a session.
func (a *attempt) ownBounds(ses *membership.Session, c *membership.Clock) (bounds []boottime.Instant) {
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

// MayBegin reports whether new work may be taken: an attempt that begins has more time than the last grace, at the start of
// which it is told to stop. With less time left, as right after an outage of the store, the next heartbeat comes first.
func (e *Executor) MayBegin() bool {
	ses := e.member.Session()
	return ses.Trusted() && ses.Trust.Until() > e.lastGrace()
}

// mayStart reports whether a claimed task may be started. A replica that wakes late starts nothing, as another one may have the
// row by now, and neither does one that is told to stop at once. Nor is an attempt started that would be told to stop at once,
// and be lost.
func (e *Executor) mayStart(a *attempt, ses *membership.Session) bool {
	return ses.ID == a.session && ses.Trusted() && !e.halting() && a.deadline(ses, e.clock).Until() > e.lastGrace()
}

// lastGrace is how long before its deadline an attempt is told to stop.
func (e *Executor) lastGrace() time.Duration {
	return min(e.opt.StopGrace, lastGrace, e.opt.SessionTTL/5)
}

// Renewed tells the attempts their new deadlines after a heartbeat, and moves may_run_until of those that are due for it.
func (e *Executor) Renewed(ctx context.Context) {
	e.tell(e.register.attempts())
	e.extend(ctx)
}

// extend moves may_run_until ahead for the attempts that have passed a due time of their job while they ran: no other
// replica starts the task before the next due time.
func (e *Executor) extend(ctx context.Context) {
	now, ses, p := e.clock.Now(), e.member.Session(), e.plan.Load()
	var moves []ledger.Extension
	for _, a := range e.register.attempts() {
		j, ok := p.Jobs[a.task.Job]
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
	ours, err := e.store.Extend(ctx, ses.ID, moves)
	if err != nil {
		return // the old bound holds, and the next heartbeat asks again
	}
	var moved []*attempt
	for i, m := range moves {
		if _, a := e.register.find(claimKey{m.TaskID, m.Token}); ours[i] && a != nil {
			a.setUntil(m.Until)
			moved = append(moved, a)
		}
	}
	e.tell(moved)
}

// expire stops attempts whose deadline is near, until ctx is done. When the replica is told to stop at once, it stops all
// of them. It logs attempts that go on after they were told to stop, and hands back claimed tasks that have waited too long
// for a worker.
func (e *Executor) expire(ctx context.Context) {
	halted := e.halted
	for wake.Wait(ctx, expireEvery, halted) {
		if e.halting() {
			halted = nil // it is closed: do not wait for it again
			e.stopAll(e.killBy())
		}
		for _, f := range *e.feeders.all.Load() {
			f.handBackOverdue(queuedFor)
		}
		for _, a := range e.register.attempts() {
			e.stopBefore(a, e.lastGrace())
			e.stopForLocks(a)
			e.logUnresponsive(a)
		}
	}
}

// stopBefore tells an attempt to stop if no more than left remains until its deadline.
func (e *Executor) stopBefore(a *attempt, left time.Duration) {
	end := a.deadline(e.member.Session(), e.clock)
	if end.IsZero() || end.Until() <= left {
		a.stop(stopExpired, "this replica's session could not be renewed, and another attempt may start in its place", killTime(end))
	}
}

// stopOnTime stops an attempt that has just started at its deadline, if that may pass before expire looks at it.
func (e *Executor) stopOnTime(a *attempt) (forget func()) {
	left := a.deadline(e.member.Session(), e.clock).Until()
	if left > expireEvery {
		return func() {}
	}
	return wake.After(left, func() { e.stopBefore(a, killMargin) })
}

func killTime(end boottime.Instant) time.Time {
	if end.IsZero() {
		return time.Now()
	}
	return end.Time()
}

// killBy is when what still runs must have ended, once its grace periods are over or a halt cuts them short. The halt leaves it
// haltGrace.
func (e *Executor) killBy() time.Time {
	if e.halting() {
		return time.Now().Add(haltGrace)
	}
	return time.Now()
}

// stopAll tells everything that runs to stop, for a drain, and returns the longest grace period among it; with a zero
// killBy the grace periods hold.
func (e *Executor) stopAll(killBy time.Time) (grace time.Duration) {
	for _, a := range e.register.attempts() {
		a.stop(stopDrained, "drained", killBy)
		grace = max(grace, a.grace(e.opt.StopGrace, e.log))
	}
	return grace
}

// stopCancelled stops an attempt whose task is cancelled.
func (a *attempt) stopCancelled(reason string) { a.stop(stopCancelled, reason, time.Time{}) }

// SessionDied marks the attempts of a session that has expired: its trust window no longer bounds them.
func (e *Executor) SessionDied(session string) {
	for _, a := range e.register.attempts() {
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
