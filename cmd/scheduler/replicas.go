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
		short:   "List the replicas, and expired ones whose tasks are not reaped yet",
		heading: "REPLICA STATE PROCESS ADDRESS WORKERS VERSION LOAD JOINED SEEN LABELS",
		fetch:   (*client.Client).Replicas,
		row: func(r wire.Replica) []string {
			return []string{
				r.ID, r.State, fmt.Sprintf("%s/%d", r.Host, r.PID), r.Address, number(r.Workers), r.Version,
				number(int(r.Config)), a.ago(r.JoinedAt), a.ago(r.SeenAt), pairs(r.Labels),
			}
		},
	})
	cmd.Long = cmd.Short + ".\n\nLOAD is the number of the replica's load of a configuration; each start is a load. The live replica with the highest\n" +
		"number governs. A replica with a lower number may have the same file; if its jobs differ, its /readyz and log say so."
	return cmd
}
