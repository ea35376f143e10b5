package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// stopped says why an attempt was told to stop.
type stopped int

const (
	notStopped stopped = iota
	stopTimeout
	stopCancelled
	stopDrained
	stopExpired // somebody else may start in its place from now on
)

// attempt is one execution that is under way here.
type attempt struct {
	task    jobs.Task
	session string
	work    work
	cancel  context.CancelCauseFunc
	bound   *jobs.Bound // what the handler knows of its deadline

	mu       sync.Mutex
	mayRun   time.Time // database time; zero: as long as the session is trusted
	why      stopped
	reason   string
	killBy   time.Time          // zero: the handler's own grace period holds
	kill     context.CancelFunc // tells the handler that its time is over
	orphaned bool               // its session is dead: others may have started in its place
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

// killMargin is how much before the time by which it must be gone a handler is told to end at once.
const killMargin = 100 * time.Millisecond

// stop tells the attempt to stop; killBy zero leaves it its own grace period. The first call says
// why; later ones can only make it end sooner.
func (a *attempt) stop(why stopped, reason string, killBy time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == notStopped {
		killed, kill := context.WithCancel(context.Background())
		a.why, a.reason, a.kill = why, reason, kill
		a.cancel(&jobs.Stop{Reason: reason, KillBy: killBy, Kill: killed.Done()})
	}
	if sooner := a.killBy.IsZero() || killBy.Before(a.killBy); sooner && !killBy.IsZero() {
		a.killBy = killBy
		time.AfterFunc(time.Until(killBy)-killMargin, a.kill)
	}
}

// grace is how long the handler may take to end once it was told to.
func (a *attempt) grace(usual time.Duration) time.Duration {
	if h, ok := a.work.handler.(jobs.Graceful); ok {
		return h.StopGrace()
	}
	return usual
}

func (a *attempt) stoppedBy() (stopped, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why, a.reason
}

// deadline is when somebody else may start in the attempt's place: the last of its bounds; zero if
// it has none.
func (a *attempt) deadline(ses *session, c *clock) (end boottime.Instant) {
	for _, b := range a.bounds(ses, c) {
		if end.IsZero() || b.Until() > end.Until() {
			end = b
		}
	}
	return end
}

// bounds are the end of the session's trust window, and of what the row grants. Which of them is
// later may change: they are on different clocks where the machine's sleep does not end a session.
func (a *attempt) bounds(ses *session, c *clock) (bounds []boottime.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ses.id == a.session && !a.orphaned {
		bounds = append(bounds, ses.trust)
	}
	if !a.mayRun.IsZero() {
		bounds = append(bounds, c.instant(a.mayRun))
	}
	return bounds
}

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
// stop at once, that holds for all of them. Claimed tasks that wait for a worker too long go back.
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
