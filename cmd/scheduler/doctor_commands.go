package main

import (
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// commands reports whether commands end with their replica.
func (e *examination) commands() {
	const without = "use Linux, with /proc and /dev/null, or check LOCKSTEP_FENCING_TOKEN where the commands write"
	if !exechandler.CanWarden() {
		e.add("commands", levelWarning, without, "on this system commands go on when their replica is killed or frozen")
		return
	}
	e.add("commands", levelOK, "", "commands end when their replica is killed or frozen")
}

// startable lists commands of the configuration that could not be started here now.
func (e *examination) startable(c *config.Config) {
	look := func(what string, h jobs.Handler) {
		command, is := unwrap.As[*exechandler.Handler](h)
		if !is {
			return
		}
		if err := command.Check(); err != nil {
			e.add("commands", levelWarning, "correct the configuration, or install it before it is due", "%s: %v", what, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set.Jobs)) {
		if job := c.Set.Jobs[name]; ledger.Matches(c.Set.RunsOn(job.WithDefaults().Pool, name), c.Replica.Labels) {
			look("job "+name, job.Handler)
			look("notify of job "+name, job.Notify.Handler)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set.Pools)) {
		pool := c.Set.Pools[name]
		if !ledger.Matches(pool.RunsOn, c.Replica.Labels) {
			continue
		}
		look("pool "+name, pool.Handler)
		look("notify of pool "+name, pool.Notify.Handler)
		for _, kind := range slices.Sorted(maps.Keys(pool.Kinds)) {
			look("kind "+kind+" of pool "+name, pool.Kinds[kind])
		}
	}
}
