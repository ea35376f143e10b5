package scheduler

import (
	"context"
	"math"
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

	mu       sync.Mutex
	mayRun   time.Time // database time; zero: as long as the session is trusted
	why      stopped
	reason   string
	orphaned bool // its session is dead: others may have started in its place
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

// stop tells the attempt to stop, once; killBy zero leaves it its own grace period.
func (a *attempt) stop(why stopped, reason string, killBy time.Time) {
	a.mu.Lock()
	first := a.why == notStopped
	if first {
		a.why, a.reason = why, reason
	}
	a.mu.Unlock()
	if first {
		a.cancel(&jobs.Stop{Reason: reason, KillBy: killBy})
	}
}

func (a *attempt) stoppedBy() (stopped, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why, a.reason
}

// deadline is when somebody else may start in the attempt's place: the end of the session's trust
// window, or of what the row grants if that is later.
func (a *attempt) deadline(ses *session, c *clock) boottime.Instant {
	a.mu.Lock()
	defer a.mu.Unlock()
	end := boottime.Instant{}
	if ses.id == a.session && !a.orphaned {
		end = ses.trust
	}
	if !a.mayRun.IsZero() {
		if row := c.instant(a.mayRun); end.IsZero() || row.Until() > end.Until() {
			end = row
		}
	}
	return end
}

// running is what this replica executes, and which of its transactions are under way.
type running struct {
	mu    sync.Mutex
	by    map[string]*attempt // task id
	open  map[int]time.Time   // transactions that may make rows ours
	count int
}

func newRunning() *running {
	return &running{by: map[string]*attempt{}, open: map[int]time.Time{}}
}

func (r *running) add(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[a.task.ID] = a
}

func (r *running) remove(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[a.task.ID] == a {
		delete(r.by, a.task.ID)
	}
}

func (r *running) get(id string) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[id]
}

func (r *running) all() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*attempt, 0, len(r.by))
	for _, a := range r.by {
		all = append(all, a)
	}
	return all
}

// sessionDied marks the attempts of a session that the others declared dead.
func (r *running) sessionDied(session string) {
	for _, a := range r.all() {
		if a.session == session {
			a.mu.Lock()
			a.orphaned = true
			a.mu.Unlock()
		}
	}
}

// transaction notes that a transaction begins which may make rows ours; call the answer when it has
// ended and its tasks are known here.
func (r *running) transaction() (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	n := r.count
	r.open[n] = time.Now()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, n)
	}
}

// oldestTransaction is when the oldest one that is under way began; far in the future if none is.
func (r *running) oldestTransaction() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := time.Unix(math.MaxInt32, 0)
	for _, began := range r.open {
		if began.Before(oldest) {
			oldest = began
		}
	}
	return oldest
}

const (
	expireEvery = 250 * time.Millisecond
	lastGrace   = 2 * time.Second
)

// expire stops attempts whose may_run_until comes near, until ctx is done: they get at most
// lastGrace to end by themselves and are killed when the time is over. Claimed tasks that wait for a
// worker too long go back.
func (s *Scheduler) expire(ctx context.Context) {
	for pause(ctx, expireEvery, nil) {
		for _, f := range s.feeders {
			for _, c := range f.overdue() {
				s.handBack(c)
			}
		}
		ses := s.session.Load()
		for _, a := range s.running.all() {
			end := a.deadline(ses, s.clock)
			grace := min(s.opt.StopGrace, lastGrace, s.opt.SessionTTL/5)
			if end.IsZero() || end.Until() <= grace {
				a.stop(stopExpired, "this replica lost touch with the store, and another one may start in its place", killTime(end))
			}
		}
	}
}

func killTime(end boottime.Instant) time.Time {
	if end.IsZero() {
		return time.Now()
	}
	return end.Time()
}
