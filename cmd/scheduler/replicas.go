package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newReplicasCommand(a *app) *cobra.Command {
	return group("replicas", "Show the replicas", newReplicasListCommand(a))
}

func newReplicasListCommand(a *app) *cobra.Command {
	cmd := newListCommand(a, listing[wire.Replica]{
		short:   "List the replicas, and dead ones whose tasks are about to be taken over",
		heading: "REPLICA STATE PROCESS ADDRESS WORKERS VERSION LOAD JOINED SEEN LABELS",
		fetch:   (*client.Client).Replicas,
		row: func(r wire.Replica) []string {
			return []string{
				r.ID, r.State, fmt.Sprintf("%s/%d", r.Host, r.PID), r.Address, number(r.Workers), r.Version,
				number(int(r.Config)), a.ago(r.JoinedAt), a.ago(r.SeenAt), pairs(r.Labels),
			}
		},
	})
	cmd.Long = cmd.Short + ".\n\nLOAD counts loads of configurations, and each start is one: the live replica with the highest number governs. A lower number\n" +
		"says only that a replica was started earlier, perhaps on the same file. One that has jobs otherwise says so in its /readyz and log."
	return cmd
}
