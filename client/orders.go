package client

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// RunJobAt orders a run of a job at a time to come, by the clock of the database. One that has passed is jobs.ErrInvalid. What is said of RunJobWith's
// payload holds here, too; Force must be empty.
func (c *Client) RunJobAt(ctx context.Context, name string, run jobs.NewRun, at time.Time) (wire.Order, error) {
	return post[wire.Order](ctx, c, struct {
		Payload any       `json:"payload,omitempty"`
		Force   string    `json:"force,omitempty"`
		At      time.Time `json:"at"`
	}{run.Payload, run.Force, at}, "jobs", name, "run")
}

// Backfill orders runs of due times of a job that have passed, the oldest first. See Order for how far it has come, and CancelOrder to stop it.
func (c *Client) Backfill(ctx context.Context, name string, b wire.NewBackfill) (wire.Order, error) {
	return post[wire.Order](ctx, c, b, "jobs", name, "backfill")
}

// PreviewBackfill says what Backfill would do.
func (c *Client) PreviewBackfill(ctx context.Context, name string, b wire.NewBackfill) (wire.BackfillPreview, error) {
	return post[wire.BackfillPreview](ctx, c, struct {
		wire.NewBackfill
		Preview bool `json:"preview"`
	}{b, true}, "jobs", name, "backfill")
}

// Orders returns a page of the orders, the latest first.
func (c *Client) Orders(ctx context.Context, f wire.OrderFilter) (wire.List[wire.Order], error) {
	return get[wire.List[wire.Order]](ctx, c, pageQuery(f.Page, "job", f.Job, "kind", string(f.Kind), "state", string(f.State)), "orders")
}

// Order returns one order.
func (c *Client) Order(ctx context.Context, id string) (wire.Order, error) {
	return get[wire.Order](ctx, c, nil, "orders", id)
}

// AwaitOrder waits until an order has ended; see FollowOrder.
func (c *Client) AwaitOrder(ctx context.Context, id string) (wire.Order, error) {
	return c.FollowOrder(ctx, id, func(wire.Order) error { return nil })
}

// FollowOrder waits until an order has ended, asks as often as Follow does for a task, and calls see with each answer. A run at a time has ended when its run
// was made, see TaskID, or is not made any more, see State and Reason; a backfill, when each of its runs has ended or it makes none any more. How it
// ended is no error. Errors: as Follow, and with one the order is as it was seen last, too.
func (c *Client) FollowOrder(ctx context.Context, id string, see func(wire.Order) error) (wire.Order, error) {
	w, last := newWait(c, "order "+id), wire.Order{}
	for {
		order, err := within(ctx, id, c.Order)
		if err == nil {
			last = order
			if err := see(order); err != nil || order.State != wire.OrderOpen {
				return order, err
			}
		}
		if err := w.pause(ctx, err); err != nil {
			return last, err
		}
	}
}

// CancelOrder ends an open order: it makes nothing more, and what it has made goes on. jobs.ErrConflict: it has ended.
func (c *Client) CancelOrder(ctx context.Context, id string) (wire.Order, error) {
	return post[wire.Order](ctx, c, nil, "orders", id, "cancel")
}
