package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

func newLocksCommand(a *app) *cobra.Command {
	return group("locks", "Show who holds which lock", newLocksListCommand(a))
}

func newLocksListCommand(a *app) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the locks that are held",
		Long:  "List the locks that are held: those of the scheduler itself below sys/, those of jobs and programs below user/.",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			rows, _, err := collect(everything, func(p client.Page) (client.List[ledger.LockView], error) { return c.Locks(ctx, prefix, p) })
			if err != nil {
				return err
			}
			return a.print(rows, func(w io.Writer) error {
				cells := make([][]string, len(rows))
				for i, l := range rows {
					cells[i] = []string{l.Key, l.Owner, fmt.Sprint(l.Token), a.ago(l.Since), l.Meta}
				}
				return table(w, "LOCK OWNER TOKEN HELD NOTE", cells)
			})
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with `PREFIX`")
	return cmd
}
