package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// overdueAfter is how long a due time is left to the owner of its stripe.
	overdueAfter = 250 * time.Millisecond
	// overdueEvery is how often each replica looks for what an owner left.
	overdueEvery = 500 * time.Millisecond
	// decideBatch is how many jobs one transaction decides.
	decideBatch = 500
	// helpBatch is how many overdue ones it takes at once, as long as others take some, too.
	helpBatch = 100
)

// triggers is the due times of a replica: it looks after stripes of the jobs, decides what is due, and has it executed.
type triggers struct {
	store   triggerStore
	replica string // id of this one
	member  member
	log     *slog.Logger
	clock   *membership.Clock
	locks   *membership.LockService
	plan    *plan.Plan
	metrics triggerMetrics
	work    *executor

	stripes  *stripes
	upcoming *upcoming
	foreign  foreign

	storeID       string // the store's Namespace, empty until it is known; of balance alone
	metOtherStore bool   // that said so; of balance alone

	nudgeBalance chan struct{} // look at the stripes now
	nudgeFire    chan struct{} // look at due times now
}

// triggerMetrics is told what is decided.
type triggerMetrics interface {
	Decided(t jobs.Trigger)
}

// triggerStore is what it needs of the store.
type triggerStore interface {
	ledger.Triggers
	Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error)
	Overdue(ctx context.Context, t time.Time, limit int) ([]ledger.Upcoming, error)
	TaskRow(ctx context.Context, id string) (jobs.Task, error)
	RetryTask(ctx context.Context, id, by string, force bool) (jobs.Task, error)
	Namespace(ctx context.Context) (string, error)
}

// newTriggers makes those of a replica, none of which are known yet.
func newTriggers(st triggerStore, replica string, m *membership.Member, lk *membership.LockService, p *plan.Plan, log *slog.Logger, metrics triggerMetrics, w *executor) *triggers {
	return &triggers{
		store: st, replica: replica, member: m, log: log, clock: m.Clock(), locks: lk, plan: p, metrics: metrics, work: w,
		stripes: &stripes{held: map[int]*locks.Lease{}}, upcoming: newUpcoming(), nudgeBalance: wake.Signal(), nudgeFire: wake.Signal(),
	}
}

// live notes which replicas take part.
func (s *triggers) live(replicas []string) { s.stripes.take(s.replica, replicas, s.member.Draining()) }

// fire decides due times until ctx is done: those of the own stripes when they come, and those of
// any stripe that are overdue, lock or no lock. So a dead, stuck or half-connected owner delays a
// trigger by less than a second.
func (s *triggers) fire(ctx context.Context) {
	var looked time.Time
	for ctx.Err() == nil {
		wait := overdueEvery - time.Since(looked)
		if at, ok := s.upcoming.next(); ok {
			wait = min(wait, at.Sub(s.clock.Now()))
		}
		if wait > 0 && !wake.Wait(ctx, wait, s.nudgeFire) {
			return
		}
		if !s.work.mayBegin() || s.locks.Blocks() {
			if !wake.Wait(ctx, overdueEvery, s.nudgeFire) {
				return
			}
			continue
		}
		if names := s.dueHere(); len(names) > 0 {
			s.decide(ctx, names)
		}
		if time.Since(looked) >= overdueEvery {
			looked = time.Now()
			if s.overdue(ctx) {
				looked = time.Time{}
			}
		}
	}
}

// dueHere is what is due of the own stripes. What is due of others is theirs, and forgotten; one of them may be
// an own one again before the stripes are balanced next.
func (s *triggers) dueHere() []string {
	mine := s.owned()
	return s.upcoming.take(s.clock.Now(), decideBatch, func(job string) bool {
		stripe := s.plan.Jobs[job].Stripe
		_, ok := slices.BinarySearch(mine, stripe)
		if !ok {
			s.stripes.forget(stripe)
		}
		return ok
	})
}

// overdue decides what is due for longer than overdueAfter, whoever should have. The next in line
// for a stripe comes first, the others a little later; each takes a few at random, and goes on as
// long as it finds something. So an owner that has much to do is helped, not blocked.
func (s *triggers) overdue(ctx context.Context) (again bool) {
	now := s.clock.Now()
	limit := decideBatch + s.foreign.count() // which may all stand before the others
	rows, err := s.store.Overdue(ctx, now.Add(-overdueAfter), limit)
	if err != nil {
		s.member.StoreFailed(err)
		return false
	}
	var names []string
	for _, u := range rows {
		if j, known := s.plan.Jobs[u.Job]; known && !s.foreign.has(u.Job) && now.Sub(u.NextAt) >= s.patience(j.Stripe) {
			names = append(names, u.Job)
		}
	}
	if len(names) == 0 {
		return false
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	again = len(rows) == limit
	for size := helpBatch; len(names) > 0; {
		batch := names[:min(len(names), size)]
		names = names[len(batch):]
		written, busy := s.decideFree(ctx, batch, true)
		again = again || len(busy) > 0 // to ask whether they are still due is cheap
		switch {
		case written == 0:
			return false // somebody else is at it
		case written >= len(batch):
			size = decideBatch // nobody else is
		}
	}
	return again
}

// patience is how long this replica leaves due times of a stripe to those before it.
func (s *triggers) patience(stripe int) time.Duration {
	s.stripes.mu.Lock()
	live := s.stripes.live
	s.stripes.mu.Unlock()
	return overdueAfter * time.Duration(min(rank(s.replica, stripe, live), 2))
}
