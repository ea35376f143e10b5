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
//  1. wait for the next due time of the own stripes, or for the next look for overdue jobs
//  2. while no work may begin, wait again
//  3. decide what is due in the own stripes
//  4. each overdueEvery, decide what is overdue in any stripe
func (t *Triggers) fire(ctx context.Context) {
	var looked time.Time
	for ctx.Err() == nil {
		wait := overdueEvery - time.Since(looked)
		if at, ok := t.upcoming.next(); ok {
			wait = min(wait, at.Sub(t.clock.Now()))
		}
		if wait > 0 && !wake.Wait(ctx, wait, t.wakeFire) {
			return
		}
		if !t.work.MayBegin() || t.locks.Blocks() {
			if !wake.Wait(ctx, overdueEvery, t.wakeFire) {
				return
			}
			continue
		}
		if names := t.dueHere(); len(names) > 0 {
			t.decide(ctx, names)
		}
		if time.Since(looked) >= overdueEvery {
			looked = time.Now()
			if t.overdue(ctx) {
				looked = time.Time{}
			}
		}
	}
}

// dueHere is what is due of the own stripes. Due times of other stripes are forgotten; such a stripe may become an own
// one before the stripes are balanced next.
func (t *Triggers) dueHere() []string {
	mine := t.Owned()
	return t.upcoming.take(t.clock.Now(), decideBatch, func(job string) bool {
		stripe := t.plan.Jobs[job].Stripe
		_, ok := slices.BinarySearch(mine, stripe)
		if !ok {
			t.stripes.forget(stripe)
		}
		return ok
	})
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
	for _, u := range rows {
		if j, known := t.plan.Jobs[u.Job]; known && !t.foreign.has(u.Job) && now.Sub(u.NextAt) >= t.patience(j.Stripe) {
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
