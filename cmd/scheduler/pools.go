package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newPoolsCommand(a *app) *cobra.Command {
	return group("pools", "Show pools, pause and resume them",
		newPoolsListCommand(a),
		newPoolsOverrideCommand(a, "pause", "Start no task of a pool until it is resumed", (*client.Client).PausePool),
		newPoolsOverrideCommand(a, "resume", "Start tasks of a pool again", (*client.Client).ResumePool),
	)
}

func newPoolsListCommand(a *app) *cobra.Command {
	return newListCommand(a, listing[wire.Pool]{
		short:   "List the pools and their numbers of tasks",
		heading: "POOL STATE WORKERS MAX RUNNING PENDING SCHEDULED OLDEST",
		fetch:   (*client.Client).Pools,
		row: func(p wire.Pool) []string {
			return []string{p.Name, poolState(p), number(p.Workers), number(p.MaxRunning), number(p.Running), number(p.Pending), number(p.Scheduled), a.ago(p.OldestPending)}
		},
	})
}

type setPool = func(*client.Client, context.Context, string) (wire.Pool, error)

func newPoolsOverrideCommand(a *app, verb, short string, set setPool) *cobra.Command {
	return newOverrideCommand(a, setting[wire.Pool]{
		use: verb + " POOL", short: short, set: set, reset: (*client.Client).ResetPool,
		long:    ", on all replicas. Running tasks go on. This overrides the configuration until --reset.",
		message: func(p wire.Pool) string { return p.Name + " is " + poolState(p) },
	})
}

func poolState(p wire.Pool) string {
	switch {
	case p.Retired:
		return "retired"
	case p.Paused:
		return "paused"
	}
	return "active"
}
