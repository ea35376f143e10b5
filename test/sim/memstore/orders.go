package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Order is a row of orders.
type Order struct {
	ID         string      `col:"id"`
	Job        string      `col:"job"`
	Kind       string      `col:"kind"`
	State      string      `col:"state"`
	By         string      `col:"by_whom"`
	Reason     string      `col:"reason"`
	ReasonCode reason.Code `col:"reason_code"`
	CreatedAt  int64       `col:"created_at"`
	Next       int64       `col:"next_at"`
	EndedAt    int64       `col:"ended_at"`
	Asked      []byte      `col:"asked"`
	Progress   []byte      `col:"progress"`
}

// Order is the row as an order.
func (r Order) Order() ledger.Order {
	o := ledger.Order{
		ID: r.ID, Job: r.Job, Kind: wire.OrderKind(r.Kind), State: wire.OrderState(r.State), By: r.By, Reason: r.Reason, ReasonCode: r.ReasonCode,
		CreatedAt: fromMicros(r.CreatedAt), NextAt: fromMicros(r.Next), EndedAt: fromMicros(r.EndedAt),
	}
	if err := json.Unmarshal(r.Asked, &o.Asked); err != nil {
		panic(err)
	}
	if err := json.Unmarshal(r.Progress, &o.Progress); err != nil {
		panic(err)
	}
	return o
}

func orderRow(o ledger.Order) Order {
	asked, _ := json.Marshal(o.Asked)
	progress, _ := json.Marshal(o.Progress)
	return Order{
		ID: o.ID, Job: o.Job, Kind: string(o.Kind), State: string(o.State), By: o.By, Reason: o.Reason, ReasonCode: o.ReasonCode,
		CreatedAt: micros(o.CreatedAt), Next: micros(o.NextAt), EndedAt: micros(o.EndedAt), Asked: asked, Progress: progress,
	}
}

// AddOrder implements ledger.Triggers.
func (s *Store) AddOrder(ctx context.Context, o ledger.Order, hash string) (added ledger.Order, err error) {
	err = s.tx(ctx, "order", func(t *tx) error {
		job := t.jobs.rows[o.Job]
		if job.Hash == "" {
			return fmt.Errorf("job %q: %w", o.Job, jobs.ErrNotFound)
		}
		if was, exists := t.orders.rows[o.ID]; exists {
			added = was.Order()
			return nil
		}
		if job.Hash != hash {
			return fmt.Errorf("job %q: %w", o.Job, jobs.ErrConflict)
		}
		if err := o.Check(t.now()); err != nil {
			return err
		}
		added = o
		added.Begin(t.now())
		put(t, &t.orders, orderRow(added))
		return nil
	})
	return added, err
}

// DueOrders implements ledger.Triggers.
func (s *Store) DueOrders(ctx context.Context, until time.Time, limit int) (due []ledger.DueOrder, err error) {
	err = s.tx(ctx, "due orders", func(t *tx) error {
		due = nil
		for _, r := range t.orders.rows {
			if r.Next > 0 && r.Next <= micros(until) {
				due = append(due, ledger.DueOrder{ID: r.ID, Job: r.Job, Kind: wire.OrderKind(r.Kind), NextAt: fromMicros(r.Next)})
			}
		}
		slices.SortFunc(due, func(a, b ledger.DueOrder) int { return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.ID, b.ID)) })
		due = due[:min(limit, len(due))]
		due = slices.DeleteFunc(due, func(d ledger.DueOrder) bool {
			removed := t.jobs.rows[d.Job].Hash == ""
			if removed {
				t.endOrders(d.Job, t.now())
			}
			return removed
		})
		return nil
	})
	return due, err
}

// endOrders ends the open orders of a job that no configuration has any more.
func (t *tx) endOrders(job string, now time.Time) {
	if t.makes(KeepsOrders) {
		return
	}
	for _, r := range t.orders.rows {
		if r.Job == job && r.Next > 0 {
			o := r.Order()
			o.Close(now, wire.OrderCancelled, reason.JobRemoved, ledger.ReasonRetired)
			put(t, &t.orders, orderRow(o))
		}
	}
}

// Ran implements ledger.Triggers.
func (s *Store) Ran(ctx context.Context, job string, from, to time.Time, limit int) (at []time.Time, err error) {
	err = s.tx(ctx, "what has run", func(t *tx) error {
		at = t.ran(job, micros(from), micros(to), limit)
		return nil
	})
	return at, err
}

func (t *tx) ran(job string, from, to int64, limit int) (at []time.Time) {
	for _, g := range t.triggers.rows {
		if g.Job == job && g.At >= from && g.At < to && ledger.HasRun(jobs.Outcome(g.Outcome)) {
			at = append(at, fromMicros(g.At))
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	at = slices.CompactFunc(at, time.Time.Equal)
	return at[:min(limit, len(at))]
}

// readOrders are those of the job that d asks for, and are open.
func (w *decision) readOrders(job string) (all []ledger.OrderState) {
	for _, asked := range w.Orders {
		r, exists := w.t.orders.rows[asked.ID]
		if !exists || r.Next == 0 || r.Job != job || slices.ContainsFunc(all, func(o ledger.OrderState) bool { return o.ID == r.ID }) {
			continue
		}
		o := ledger.OrderState{Order: r.Order(), Ended: w.t.endedOf(r.Order())}
		if b := o.Asked.Backfill; b != nil && !b.Again {
			o.Ran = w.t.ran(job, micros(o.Progress.Cursor)+1, micros(b.To), ledger.RanLooked)
			if n := len(o.Ran); n == ledger.RanLooked {
				o.RanTo = o.Ran[n-1]
			}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b ledger.OrderState) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// endedOf is how the runs of an order have ended that it has as open.
func (t *tx) endedOf(o ledger.Order) map[string]jobs.State {
	if len(o.Progress.Open) == 0 {
		return nil
	}
	ended := map[string]jobs.State{}
	for _, r := range o.Progress.Open {
		g, exists := t.triggers.rows[TriggerKey{o.Job, micros(r.At), r.Seq}]
		end, is := ledger.End(jobs.Trigger{Outcome: jobs.Outcome(g.Outcome), Result: jobs.State(g.Result)})
		if is || !exists {
			ended[r.Task] = end
		}
	}
	return ended
}

// backfilled reports whether a task was made by a backfill.
func (t *tx) backfilled(task Task) bool {
	return t.triggers.rows[TriggerKey{task.Job, task.TriggerAt, task.TriggerSeq}].Cause == string(jobs.CauseBackfill)
}

// writeOrders writes what becomes of orders.
func (w *decision) writeOrders(dec *ledger.Decision) error {
	for k := range dec.Orders {
		o := &dec.Orders[k]
		locked := slices.ContainsFunc(w.Orders, func(d ledger.DueOrder) bool { return d.ID == o.ID })
		if r, exists := w.t.orders.rows[o.ID]; !locked || !exists || r.Next == 0 || r.Job != dec.Job {
			return fmt.Errorf("a decision about order %s, whose row is not locked", o.ID)
		}
		o.Progress.Open = slices.Clone(o.Progress.Open)
		for n := range o.Progress.Open {
			r := &o.Progress.Open[n]
			for _, made := range dec.Triggers {
				if made.Task != nil && made.Task.ID == r.Task {
					r.Seq = made.Trigger.Seq
				}
			}
		}
		put(w.t, &w.t.orders, orderRow(*o))
	}
	return nil
}

// Orders lists orders, the latest first, without pages.
func (s *Store) Orders(ctx context.Context, f wire.OrderFilter) (all []wire.Order, next string, err error) {
	err = s.tx(ctx, "orders", func(t *tx) error {
		all = nil
		for _, r := range t.orders.rows {
			if (f.Job == "" || f.Job == r.Job) && (f.Kind == "" || string(f.Kind) == r.Kind) && (f.State == "" || string(f.State) == r.State) {
				all = append(all, r.Order().View(t.endedOf(r.Order())))
			}
		}
		slices.SortFunc(all, func(a, b wire.Order) int { return cmp.Compare(b.ID, a.ID) })
		return nil
	})
	return all, "", err
}

// Order returns one order.
func (s *Store) Order(ctx context.Context, id string) (o wire.Order, err error) {
	err = s.tx(ctx, "order", func(t *tx) error {
		r, exists := t.orders.rows[id]
		if !exists {
			return fmt.Errorf("order %q: %w", id, jobs.ErrNotFound)
		}
		o = r.Order().View(t.endedOf(r.Order()))
		return nil
	})
	return o, err
}

// CancelOrder ends an open order.
func (s *Store) CancelOrder(ctx context.Context, id, by string) (o wire.Order, err error) {
	err = s.tx(ctx, "cancel order", func(t *tx) error {
		r, exists := t.orders.rows[id]
		if !exists {
			return fmt.Errorf("order %q: %w", id, jobs.ErrNotFound)
		}
		is := r.Order()
		if is.State != wire.OrderOpen {
			return is.NotOpen()
		}
		if t.makes(CancelsNoOrder) {
			o = is.View(nil)
			return nil
		}
		is.Close(t.now(), wire.OrderCancelled, reason.Cancelled, ledger.StoppedBy(by))
		put(t, &t.orders, orderRow(is))
		o = is.View(t.endedOf(is))
		return nil
	})
	return o, err
}
