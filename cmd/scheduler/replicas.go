package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

func newReplicasCommand(a *app) *cobra.Command {
	return group("replicas", "Show the replicas", newReplicasListCommand(a))
}

func newReplicasListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the replicas, and dead ones whose tasks are about to be taken over",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			rows, _, err := collect(everything, func(p client.Page) (client.List[ledger.ReplicaView], error) { return c.Replicas(ctx, p) })
			if err != nil {
				return err
			}
			return a.print(rows, func(w io.Writer) error {
				cells := make([][]string, len(rows))
				for i, r := range rows {
					cells[i] = []string{r.ID, r.State, fmt.Sprintf("%s/%d", r.Host, r.PID), r.Address, number(r.Workers), r.Version, number(int(r.Config)), a.ago(r.JoinedAt), a.ago(r.SeenAt), pairs(r.Labels)}
				}
				return table(w, "REPLICA STATE PROCESS ADDRESS WORKERS VERSION CONFIG JOINED SEEN LABELS", cells)
			})
		}),
	}
}
