package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// followOrder waits for the run of an order, and follows it. Where there is none, the error says why, and -o json prints the order.
func (a *app) followOrder(ctx context.Context, c *client.Client, o wire.Order) error {
	seen, err := c.AwaitOrder(ctx, o.ID)
	if seen.ID != "" {
		o = seen
	}
	if err == nil && o.TaskID != "" {
		return a.followRun(ctx, c, jobs.Task{ID: o.TaskID, Job: o.Job})
	}
	if err == nil {
		err = fmt.Errorf("the run was not made: the order is %s%s", o.State, after(": ", o.Reason))
	}
	return a.endOf(o, err)
}

// followBackfill waits for the end of a backfill, and prints on stderr how far it has come whenever that has changed. The error says how many of its runs did not succeed.
func (a *app) followBackfill(ctx context.Context, c *client.Client, o wire.Order) error {
	shown := ""
	seen, err := c.FollowOrder(ctx, o.ID, func(o wire.Order) error {
		if news := whatOf(o); news != shown {
			fmt.Fprintln(a.stderr, news)
			shown = news
		}
		return nil
	})
	if seen.Backfill != nil {
		o = seen
	}
	switch b := o.Backfill; {
	case err != nil:
	case o.State != wire.OrderDone:
		err = fmt.Errorf("the backfill did not come to its end: it is %s%s", o.State, after(": ", o.Reason))
	case b.Succeeded < b.Made:
		err = fmt.Errorf("of %s %d did not succeed", count(b.Made, "run"), b.Made-b.Succeeded)
	}
	return a.endOf(o, err)
}

// endOf prints an order that was waited for, with -o json, and returns the error that says what has become of it.
func (a *app) endOf(o wire.Order, err error) error {
	if a.output == "table" {
		return err
	}
	return cmp.Or(a.print(o, nil), err)
}
