package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newLocksCommand(a *app) *cobra.Command {
	return group("locks", "Show the locks and their holders", newLocksListCommand(a))
}

func newLocksListCommand(a *app) *cobra.Command {
	var prefix string
	cmd := newListCommand(a, listing[wire.Lock]{
		short:   "List the locks that are held",
		heading: "LOCK OWNER TOKEN HELD NOTE",
		fetch: func(c *client.Client, ctx context.Context, p wire.Page) (wire.List[wire.Lock], error) {
			return c.Locks(ctx, prefix, p)
		},
		row: func(l wire.Lock) []string {
			return []string{l.Key, l.Owner, fmt.Sprint(l.Token), a.ago(l.Since), l.Meta}
		},
	})
	cmd.Long = "List the locks that are held: those of the scheduler itself below sys/, those of jobs and programs below user/."
	cmd.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with `PREFIX`")
	return cmd
}
