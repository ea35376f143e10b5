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
	if a.output == "table" {
		return err
	}
	return cmp.Or(a.print(o, nil), err)
}
