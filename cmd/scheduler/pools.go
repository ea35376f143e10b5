package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

func newPoolsCommand(a *app) *cobra.Command {
	return group("pools", "Show pools, pause and resume them",
		newPoolsListCommand(a),
		newPoolsOverrideCommand(a, "pause", "Let no task of a pool start until it is resumed", (*client.Client).PausePool),
		newPoolsOverrideCommand(a, "resume", "Let tasks of a pool start again", (*client.Client).ResumePool),
	)
}

func newPoolsListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the pools and what is in them",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			rows, _, err := collect(everything, func(p client.Page) (client.List[ledger.PoolView], error) { return c.Pools(ctx, p) })
			if err != nil {
				return err
			}
			return a.print(rows, func(w io.Writer) error {
				cells := make([][]string, len(rows))
				for i, p := range rows {
					cells[i] = []string{p.Name, poolState(p), number(p.Workers), number(p.MaxRunning), number(p.Running), number(p.Pending), number(p.Scheduled), a.ago(p.OldestPending)}
				}
				return table(w, "POOL STATE WORKERS MAX RUNNING PENDING SCHEDULED OLDEST", cells)
			})
		}),
	}
}

func newPoolsOverrideCommand(a *app, verb, short string, set func(*client.Client, context.Context, string) (ledger.PoolView, error)) *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   verb + " POOL",
		Short: short,
		Long:  short + ", on all replicas. What runs goes on. This overrides the configuration until --reset.",
		Args:  cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			if reset {
				set = (*client.Client).ResetPool
			}
			pool, err := set(c, ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(pool, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s is %s\n", pool.Name, poolState(pool))
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "clear the override")
	return cmd
}

func poolState(p ledger.PoolView) string {
	switch {
	case p.Retired:
		return "retired"
	case p.Paused:
		return "paused"
	}
	return "active"
}
