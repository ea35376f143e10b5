package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Orders of users.
const (
	runsAt       = "run-at"       // a job, By after the call
	backfills    = "backfill"     // of a job, N at once, P a second; 0: as fast as N lets them
	cancelsOrder = "cancel-order" // an open one
)

// drawOrders has users order runs, and cancel some orders. A backfill is of a job that is due seldom: one that is due each second leaves it no slot.
func (p *plan) drawOrders(d draw) {
	if !d.chance(0.4) {
		return
	}
	at := func() time.Duration { return d.between(500*time.Millisecond, p.Length).Truncate(time.Millisecond) }
	all := slices.Sorted(maps.Keys(p.Jobs))
	seldom := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return p.often(p.Jobs[name]) || p.often(p.Edited[name])
	})
	for range 1 + d.IntN(3) {
		s := step{At: at(), Kind: runsAt, Name: pick(d, all...), Replica: d.IntN(p.Replicas), By: d.between(100*time.Millisecond, 6*time.Second)}
		if d.chance(0.6) && len(seldom) > 0 {
			s.Kind, s.Name, s.N = backfills, pick(d, seldom...), 1+d.IntN(3)
			if d.chance(0.3) {
				s.P = pick(d, 1, 2, 5.)
			}
		}
		p.Steps = append(p.Steps, s)
		if d.chance(0.3) {
			p.Steps = append(p.Steps, step{At: s.At + d.between(0, 4*time.Second), Kind: cancelsOrder})
		}
	}
}

// orders reports whether users order anything.
func (p *plan) orders() bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return s.Kind == runsAt || s.Kind == backfills })
}

// often reports whether a job is due more than six times a minute.
func (p *plan) often(j job) bool {
	from := p.began()
	return j.Times.count(from, from.Add(time.Minute)) > 6
}

// order makes a call of a user about orders.
func (w *world) order(s step, r *replica) {
	ctx := context.Background()
	switch s.Kind {
	case runsAt:
		at := w.clock().Add(s.By).Truncate(time.Millisecond)
		if o, err := r.s.RunJobAt(ctx, s.Name, jobs.NewRun{By: "a user"}, at); err == nil {
			w.ordered(o, at)
		}
	case backfills:
		b, ok := w.backfillOf(s, r)
		if !ok {
			return
		}
		if o, err := r.s.Backfill(ctx, s.Name, "a user", b); err == nil {
			w.ordered(o, time.Time{})
		}
	case cancelsOrder:
		var open []string
		w.db.Look(func(rows memstore.Rows) {
			for id, o := range rows.Orders {
				if o.State == string(wire.OrderOpen) {
					open = append(open, id)
				}
			}
		})
		if len(open) == 0 {
			return
		}
		id := slices.Sorted(slices.Values(open))[len(open)/2]
		w.mu.Lock()
		w.unwanted[id] = true
		w.mu.Unlock()
		if _, err := w.admin.CancelOrder(ctx, id, "a user"); err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.counted["orders cancelled"]++
			if o := w.orders[id]; o != nil {
				o.over = true
			}
		}
	}
}

// cancelStarving cancels backfills whose jobs leave them no slot, as busy ones may, if a replica has looked at them of late.
func (w *world) cancelStarving() {
	var starving []string
	looked := w.clock().Add(-5 * time.Second).UnixMicro()
	w.db.Look(func(rows memstore.Rows) {
		for id, o := range rows.Orders {
			if o.Kind == string(wire.OrderBackfill) && o.Next > looked {
				starving = append(starving, id)
			}
		}
	})
	for _, id := range slices.Sorted(slices.Values(starving)) {
		w.mu.Lock()
		w.unwanted[id] = true
		w.mu.Unlock()
		if _, err := w.admin.CancelOrder(context.Background(), id, "a user"); err == nil {
			w.count("backfills without a slot")
		}
	}
}

// backfillOf is a backfill of the latest due times of a job, of few of them, by what the replica has loaded.
func (w *world) backfillOf(s step, r *replica) (b wire.NewBackfill, ok bool) {
	j, has := w.plan.versions()[r.node.loads()][s.Name]
	d := keyed(w.plan.Seed, "backfill", int(s.At))
	now := w.clock()
	if !has {
		return b, false
	}
	for _, span := range []time.Duration{5 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 12 * time.Hour} { // calendars are known for a day before the run
		if n := j.Times.count(now.Add(-span), now); n > 0 && n <= 6 {
			b.From, ok = now.Add(-span), true
		}
	}
	if !ok {
		return b, false
	}
	if d.chance(0.4) {
		b.To = now.Add(-d.between(0, now.Sub(b.From)))
	}
	b.MaxRunning, b.Again = s.N, d.chance(0.3)
	if s.P > 0 {
		b.Rate = jobs.Rate{Count: int(s.P), Per: time.Second}
	}
	return b, true
}

// loads is the version that the node's process has, or is about to have.
func (n *node) loads() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// ordered notes an order that was acknowledged: its row is there, and says what was asked for.
func (w *world) ordered(o wire.Order, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := w.orders[o.ID]
	if is == nil {
		w.violate(o.ID, "order %s of %s was acknowledged, and has no row", o.ID, o.Job)
		return
	}
	w.counted["orders "+string(o.Kind)]++
	if is.acked = true; !at.IsZero() && !is.asked.At.Equal(at) {
		w.violate(o.ID, "order %s is for %v, not for %v", o.ID, is.asked.At, at)
	}
}
