package main

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// handlersOf are the handlers of a set, in no order.
func handlersOf(set jobs.Set) (all []jobs.Handler) {
	for _, job := range set.Jobs {
		all = append(all, job.Handler, job.Notify.Handler)
	}
	for _, pool := range set.Pools {
		all = append(all, pool.Handler, pool.Notify.Handler)
		for _, h := range pool.Kinds {
			all = append(all, h)
		}
	}
	return all
}

// commandLimitsOf are the largest limits of the commands of a set; zero fields are limited by none.
func commandLimitsOf(set jobs.Set) (most exechandler.Limits) {
	for _, h := range handlersOf(set) {
		if command, is := unwrap.As[*exechandler.Handler](h); is {
			l := command.Limits()
			most.CPU, most.Memory, most.Nice = max(most.CPU, l.CPU), max(most.Memory, l.Memory), max(most.Nice, l.Nice)
		}
	}
	return most
}

// commandLimits knows how this replica holds the limits of its commands.
type commandLimits struct {
	held    exechandler.Held
	log     *slog.Logger
	missing atomic.Value // what does not hold as it is written, a string
}

// newCommandLimits makes place for control groups, where they are delegated to this process, and says how limits are held.
func newCommandLimits(log *slog.Logger) *commandLimits {
	l := &commandLimits{held: exechandler.LimitsHeld(), log: log}
	l.missing.Store("")
	if l.held.CPU != exechandler.NotHeld || l.held.Memory == exechandler.ByGroup {
		log.Info("commands can have control groups", "cpu", l.held.CPU, "memory", l.held.Memory, "why not all", l.held.Why)
	}
	return l
}

// loaded logs which limits of a set do not hold, if that is news.
func (l *commandLimits) loaded(set jobs.Set) {
	missing := l.held.Missing(commandLimitsOf(set))
	if was := l.missing.Swap(missing); missing != "" && missing != was {
		l.log.Warn("limits of commands do not hold as they are written", "why", missing)
	}
}

// withLimits adds a condition while limits do not hold as they are written; the replica stays ready.
func withLimits(conditions func() []wire.Condition, l *commandLimits) func() []wire.Condition {
	return func() []wire.Condition {
		all := conditions()
		if missing := l.missing.Load().(string); missing != "" {
			all = append(all, wire.Condition{Name: "limits", Ready: true, Detail: "of commands: " + missing})
		}
		return all
	}
}

// commandLimits reports how the limits of commands would hold here.
func (e *examination) commandLimits(set jobs.Set) {
	limits := commandLimitsOf(set)
	if limits == (exechandler.Limits{}) {
		return
	}
	if missing := exechandler.LimitsExpected().Missing(limits); missing != "" {
		const hint = "as a service, with Delegate=yes in its unit, a replica has control groups; its log and /readyz say what holds there"
		e.add("limits", levelWarning, hint, "in the control group of this process, of the limits of commands: %s", missing)
		return
	}
	e.add("limits", levelOK, "", "%s", fmt.Sprintf("limits of commands (%v at most) hold in the control group of this process", limits))
}
