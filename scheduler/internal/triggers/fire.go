package triggers

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// overdueAfter is how long a due time is left to the owner of its stripe.
	overdueAfter = 250 * time.Millisecond
	// overdueEvery is how often each replica looks for due times that the owner of a stripe left.
	overdueEvery = 500 * time.Millisecond
	// decideBatch is how many jobs one transaction decides.
	decideBatch = 500
	// helpBatch is how many overdue jobs it takes at once while other replicas take some, too.
	helpBatch = 100
)

// fire decides due times until ctx is done: those of any stripe that are overdue with or without its lock. So an owner that
// has ended, hangs or reaches only one of its services delays a trigger by less than a second.
//
//  1. wait for the next due time of the own stripes, for the time of an order, or for the next look for overdue jobs
//  2. while no work may begin, or everything is paused, wait again: what is due is held, and decided after that as what is late is
//  3. decide what is due in the own stripes, and jobs of others of which a run has ended here; until nothing more is due, results are recorded later
//  4. make the runs of orders whose time has come; while the first time that the poll has seen is not, it does not ask
//  5. each overdueEvery, decide what is overdue in any stripe; while the first due time that the poll has seen is not, it does not ask
func (t *Triggers) fire(ctx context.Context) {
	defer t.work.Deciding(false)
	var looked time.Time
	for ctx.Err() == nil {
		wait := overdueEvery - time.Since(looked)
		if at, ok := t.upcoming.next(); ok {
			wait = min(wait, at.Sub(t.clock.Now()))
		}
		wait = min(wait, t.ordersIn())
		if wait > 0 {
			t.work.Deciding(false)
			if !wake.Wait(ctx, wait, t.wakeFire) {
				return
			}
		}
		if !t.work.MayBegin() || t.locks.Blocks() || t.paused() {
			t.work.Deciding(false)
			if !wake.Wait(ctx, overdueEvery, t.wakeFire) {
				return
			}
			continue
		}
		if names := append(t.dueHere(), t.freed.take()...); len(names) > 0 {
			t.work.Deciding(true)
			t.decide(ctx, names)
		}
		t.startOrders(ctx)
		if time.Since(looked) >= overdueEvery {
			looked = time.Now()
			if t.mayBeOverdue() && t.overdue(ctx) {
				looked = time.Time{}
			}
		}
	}
}

// paused reports whether everything is paused, as far as this replica knows: the poll for work learns of it.
func (t *Triggers) paused() bool { return t.store.SeenPause().At(t.clock.Now()).Is() }

// dueHere is what is due of the own stripes. Due times of other stripes are forgotten; such a stripe may become an own
// one before the stripes are balanced next.
func (t *Triggers) dueHere() []string {
	mine, p := t.Owned(), t.plan.Load()
	return t.upcoming.take(t.clock.Now(), decideBatch, func(job string) bool {
		j, known := p.Jobs[job]
		if !known {
			return false
		}
		_, ok := slices.BinarySearch(mine, j.Stripe)
		if !ok {
			t.stripes.forget(j.Stripe)
		}
		return ok
	})
}

// mayBeOverdue reports whether a due time may be overdue, as far as the last look of the poll says: decisions move the first one, which lies in
// the future mostly, ahead.
func (t *Triggers) mayBeOverdue() bool {
	a, fresh := t.work.Ahead()
	return !fresh || !a.FirstDue.IsZero() && !a.FirstDue.After(t.clock.Now().Add(-overdueAfter))
}

// overdue decides what has been due for longer than overdueAfter, in every stripe. The replica that ranks next
// for a stripe decides first, the others a little later; each takes a few jobs at random, and goes on while
// it finds some. So an owner with much work is helped, not blocked.
func (t *Triggers) overdue(ctx context.Context) (again bool) {
	now := t.clock.Now()
	limit := decideBatch + t.foreign.count() // all of these may come before the others
	rows, err := t.store.Overdue(ctx, now.Add(-overdueAfter), limit)
	if err != nil {
		t.member.StoreFailed(err)
		return false
	}
	var names []string
	p := t.plan.Load()
	for _, u := range rows {
		if j, known := p.Jobs[u.Job]; known && !t.foreign.has(u.Job) && now.Sub(u.NextAt) >= t.patience(j.Stripe) {
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
		written, busy := t.decideFree(ctx, batch, true)
		again = again || len(busy) > 0 // to ask whether they are still due is cheap
		switch {
		case written == 0:
			return false // another replica decides them
		case written >= len(batch):
			size = decideBatch // no other replica does
		}
	}
	return again
}

// patience is how long this replica leaves due times of a stripe to the replicas that rank before it.
func (t *Triggers) patience(stripe int) time.Duration {
	t.stripes.mu.Lock()
	live := t.stripes.live
	t.stripes.mu.Unlock()
	return overdueAfter * time.Duration(min(rank(t.replica, stripe, live), 2))
}
