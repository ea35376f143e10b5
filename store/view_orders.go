package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Orders lists orders, the latest first, and returns the cursor of the next page, "" after the last. It implements ledger.API.
//
// Errors: jobs.ErrInvalid for a limit or cursor that is none, jobs.ErrUnavailable.
func (s views) Orders(ctx context.Context, f wire.OrderFilter) (orders []wire.Order, next string, err error) {
	return page(ctx, s.Store, "orders", f.Limit,
		func(t *tx, n int) ([]wire.Order, error) { return t.orderPage(f, n) },
		func(last wire.Order) string { return paging.Cursor("orders", last.ID) })
}

// Index: orders_job of one job's, else the primary key, from its end.
func (t *tx) orderPage(f wire.OrderFilter, n int) (all []wire.Order, err error) {
	after, err := readCursor(f.Cursor, "orders", 1)
	if err != nil {
		return nil, err
	}
	from := "{orders} {walk}PRIMARY{walked}"
	if f.Job != "" {
		from = "{orders} {walk}{orders}_job{walked}"
	}
	q := table[orderModel](t).Table(from).Where(&orderModel{Job: f.Job, Kind: f.Kind, State: f.State}) // of these, those that are not empty
	if after != nil {
		q = q.Where("id < ?", after[0])
	}
	var rows []ledger.Order
	var wrong error
	err = each(rowsOf(q.Order("id DESC").Limit(n)), func(m *orderModel) {
		o, err := m.order()
		if err != nil {
			wrong = err
		}
		rows = append(rows, o)
	})
	if err == nil {
		err = wrong
	}
	for _, o := range rows {
		if err != nil {
			break
		}
		var v wire.Order
		v, err = t.viewOrder(o)
		all = append(all, v)
	}
	return all, err
}

// viewOrder is an order for people. A run of it that no row of the ledger is left of counts as cancelled.
func (t *tx) viewOrder(o ledger.Order) (wire.Order, error) {
	ended, err := t.endedOf(o)
	return o.View(ended), err
}

// Order returns one order. It implements ledger.API.
//
// Errors: jobs.ErrNotFound, jobs.ErrUnavailable.
func (s views) Order(ctx context.Context, id string) (wire.Order, error) {
	return get(ctx, s.view, "order", func(t *tx) (wire.Order, error) {
		found, err := t.orders("WHERE id=?", id)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("order %.64q: %w", id, jobs.ErrNotFound)
		}
		if err != nil {
			return wire.Order{}, err
		}
		return t.viewOrder(found[0])
	})
}

// CancelOrder ends an open order. by names the origin of the request. It implements ledger.API.
//
// Index: primary key.
//
// Errors: jobs.ErrNotFound, jobs.ErrConflict for one that has ended, jobs.ErrUnavailable.
func (s views) CancelOrder(ctx context.Context, id, by string) (cancelled wire.Order, err error) {
	asked := time.Time{} // when a try has written it, whose answer was lost
	err = s.sure(ctx, "cancel order", func(t *tx) error {
		found, err := t.orders("WHERE id=?{for_update}", id)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return fmt.Errorf("order %.64q: %w", id, jobs.ErrNotFound)
		}
		o := found[0]
		if o.State != wire.OrderOpen && !(o.ReasonCode == reason.Cancelled && o.EndedAt.Equal(asked)) {
			return o.NotOpen()
		}
		if o.State == wire.OrderOpen {
			if asked, err = t.Now(); err != nil {
				return err
			}
			o.Close(asked, wire.OrderCancelled, reason.Cancelled, ledger.StoppedBy(by))
			if err := t.Upsert("{orders} (id, job, kind, state, by_whom, reason, reason_code, created_at, next_at, ended_at, asked, progress)", "id", [][]any{writeOrder(o)}, "state", "reason", "reason_code", "next_at", "ended_at"); err != nil {
				return err
			}
		}
		cancelled, err = t.viewOrder(o)
		return err
	})
	return cancelled, err
}
