package triggers

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	// ordersEvery is how often at most the store is asked for orders whose time has come, while the poll says that there is one.
	ordersEvery = 250 * time.Millisecond
	// orderBatch is how many of them are read at once.
	orderBatch = 500
)

// orders is what this replica knows of orders, beside what the poll has seen.
type orders struct {
	mu      sync.Mutex
	asked   time.Time                             // when the store was asked last
	soonest time.Time                             // the first time of those that were added or decided here since; zero: there is none
	filling map[string]map[string]ledger.DueOrder // by job and id: backfills that are under way
	ended   map[string]bool                       // jobs of backfills of which a run has ended here: another may start
}

// wait is how long until the store is to be asked, or a backfill goes on. first is the first time of an order, as far as the poll has seen; zero: there is none.
func (o *orders) wait(now, first time.Time, fresh bool) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ended) > 0 {
		return 0
	}
	wait := overdueEvery
	if !o.soonest.IsZero() {
		wait = min(wait, o.soonest.Sub(now))
	}
	again := ordersEvery - time.Since(o.asked)
	switch {
	case !fresh:
		wait = min(wait, overdueEvery-time.Since(o.asked))
	case !first.IsZero():
		wait = min(wait, max(again, first.Sub(now)))
	}
	return wait
}

// ask notes that the store is asked now.
func (o *orders) ask() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked, o.soonest = time.Now(), time.Time{}
}

// learn notes orders that are open, and when to look at them.
func (o *orders) learn(all ...ledger.DueOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range all {
		if d.Kind == wire.OrderBackfill {
			if o.filling == nil {
				o.filling = map[string]map[string]ledger.DueOrder{}
			}
			if o.filling[d.Job] == nil {
				o.filling[d.Job] = map[string]ledger.DueOrder{}
			}
			o.filling[d.Job][d.ID] = d
		}
	}
}

// expect makes t a time to look at orders.
func (o *orders) expect(t time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.soonest.IsZero() || t.Before(o.soonest) {
		o.soonest = t
	}
}

// forget forgets an order that has ended.
func (o *orders) forget(job, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.filling[job], id); len(o.filling[job]) == 0 {
		delete(o.filling, job)
	}
}

// end notes that a run of a job has ended, and reports whether a backfill of it may go on.
func (o *orders) end(job string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.filling[job]) == 0 {
		return false
	}
	if o.ended == nil {
		o.ended = map[string]bool{}
	}
	o.ended[job] = true
	return true
}

// goOn returns the backfills that may go on, once.
func (o *orders) goOn() (all []ledger.DueOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for job := range o.ended {
		for _, d := range o.filling[job] {
			all = append(all, d)
		}
	}
	clear(o.ended)
	return all
}

// ordersIn is how long until there may be something to do for orders.
func (t *Triggers) ordersIn() time.Duration {
	a, fresh := t.work.Ahead()
	return t.orders.wait(t.clock.Now(), a.Ordered, fresh)
}

// startOrders makes the runs of orders whose time has come, and of backfills of which a run has ended here. As with overdue jobs, the owner of the stripe is
// first, and the others help a little later: an order is started by one of them, since its row is locked.
func (t *Triggers) startOrders(ctx context.Context) {
	if t.ordersIn() > 0 {
		return
	}
	come := t.orders.goOn()
	now := t.clock.Now()
	if len(come) == 0 {
		t.orders.ask()
		rows, err := t.store.DueOrders(ctx, now, orderBatch+t.foreign.count())
		if err != nil {
			t.member.StoreFailed(err)
			return
		}
		t.orders.learn(rows...)
		come = rows
	}
	var due []ledger.DueOrder
	var names []string
	p, met := t.plan.Load(), map[string]bool{}
	for _, o := range come {
		j, known := p.Jobs[o.Job]
		if !known || t.foreign.has(o.Job) || now.Sub(o.NextAt) < t.patience(j.Stripe) && !t.owns(j.Stripe) {
			continue
		}
		if due = append(due, o); !met[o.Job] {
			met[o.Job], names = true, append(names, o.Job)
		}
	}
	if len(due) > 0 {
		t.decideFree(ctx, names, false, due...)
	}
}

// ordered notes what has become of orders.
func (t *Triggers) ordered(decided ledger.Decided) {
	for _, dec := range decided.Decisions {
		for _, o := range dec.Orders {
			if o.State == wire.OrderOpen {
				t.orders.learn(ledger.DueOrder{ID: o.ID, Job: o.Job, Kind: o.Kind, NextAt: o.NextAt})
				t.orders.expect(o.NextAt)
				continue
			}
			t.orders.forget(o.Job, o.ID)
			t.log.Info("order ended", "job", o.Job, "order", o.ID, "kind", o.Kind, "by", o.By, "state", o.State, "reason", o.Reason)
		}
	}
}
