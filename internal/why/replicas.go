package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// noReplica: no live replica can run the task. Tasks of jobs have the handler of their job, whatever kinds there are.
func (p *pending) noReplica() (c wire.Cause, is bool) {
	t := p.Task
	taking := slices.DeleteFunc(slices.Clone(p.Live), func(r ledger.LiveReplica) bool { return r.Draining })
	has := func(which func(ledger.LiveReplica) bool) bool { return slices.ContainsFunc(taking, which) }
	of := "job " + t.Job
	if t.Job == "" {
		of = "pool " + t.Pool
	}
	switch {
	case len(p.Live) == 0:
		return wire.Cause{Code: reason.NoLiveReplica, Message: "no replica is live: start one"}, true
	case len(taking) == 0:
		c = wire.Cause{Code: reason.NoLiveReplica, Message: "no live replica takes tasks, as all drain: " + p.names() + "; start one"}
	case p.Pool == nil || p.Pool.Hash == "": // noPool says so
		return c, false
	case !has(func(r ledger.LiveReplica) bool { return r.HasPool }):
		c = wire.Cause{Code: reason.OtherDefinition, Message: fmt.Sprintf("no live replica has pool %s as the newest configuration defines it; live are %s", t.Pool, p.names())}
	case t.Job == "" && !p.ByWorkers && !has(func(r ledger.LiveReplica) bool { return p.takes(r) }):
		if !has(func(r ledger.LiveReplica) bool { return r.Governs }) {
			c = wire.Cause{Code: reason.OtherDefinition, Message: fmt.Sprintf("the newest configuration is that of a replica that drains, and what the others have in pool %s differs; live are %s", t.Pool, p.names())}
			break
		}
		c = wire.Cause{Code: reason.NoHandler, Message: fmt.Sprintf("no live replica has a handler in pool %s for %s; %s", t.Pool, kindOf(t.Kind), p.known(taking))}
	case len(p.here.RunsOn) > 0 && !has(func(r ledger.LiveReplica) bool { return ledger.Matches(p.here.RunsOn, r.Labels) }):
		c = wire.Cause{Code: reason.NoReplica, RunsOn: p.here.RunsOn, Message: fmt.Sprintf("no live replica has the labels that %s runs on (%s); live are %s", of, pairs(p.here.RunsOn), p.names())}
	default:
		return c, false
	}
	c.Replicas = p.listed(p.Live)
	return c, true
}

// noWorker: the task is for workers, and none takes it.
func (p *pending) noWorker() (c wire.Cause, is bool) {
	if !p.ByWorkers || len(p.Workers) > 0 {
		return c, false
	}
	return wire.Cause{Code: reason.NoWorker, Message: fmt.Sprintf("in pool %s workers over HTTP run %s, and no live one takes that; start one", p.Task.Pool, kindOf(p.Task.Kind))}, true
}

// takes reports whether a replica takes the kind of the task in its pool.
func (p *pending) takes(r ledger.LiveReplica) bool {
	return r.HasPool && (p.Task.Job != "" || r.Kinds == nil || slices.Contains(r.Kinds, p.Task.Kind))
}

// capable are the live replicas that can run the task.
func (p *pending) capable() []ledger.LiveReplica {
	return slices.DeleteFunc(slices.Clone(p.Live), func(r ledger.LiveReplica) bool {
		return r.Draining || !p.takes(r) || !ledger.Matches(p.here.RunsOn, r.Labels)
	})
}

// workersBusy: no replica that can run the task has a free slot. Where more tasks run than were counted, it may be silent.
func (p *pending) workersBusy() (c wire.Cause, is bool) {
	if p.ByWorkers { // they say with each claim how many tasks they take
		return c, false
	}
	able := p.capable()
	var busy []string
	for _, r := range able {
		switch {
		case p.here.Workers > 0 && r.PoolRunning >= p.here.Workers:
			busy = append(busy, fmt.Sprintf("%s runs %d of %d in the pool", r.Replica, r.PoolRunning, p.here.Workers))
		case r.Workers > 0 && r.Running >= r.Workers:
			busy = append(busy, fmt.Sprintf("%s runs %d of %d", r.Replica, r.Running, r.Workers))
		default:
			return c, false
		}
	}
	if len(busy) == 0 {
		return c, false
	}
	return wire.Cause{Code: reason.WorkersBusy, Replicas: p.listed(able), Message: "all slots of the replicas that can run it are taken: " + some(busy)}, true
}

// known says which kinds the replicas have in the pool.
func (p *pending) known(taking []ledger.LiveReplica) string {
	var all []string
	for _, r := range taking {
		kinds := make([]string, len(r.Kinds))
		for i, k := range r.Kinds {
			kinds[i] = kindOf(k)
		}
		if len(kinds) == 0 {
			kinds = []string{"none"}
		}
		all = append(all, r.Replica+" has "+some(kinds))
	}
	return some(all)
}

func (p *pending) names() string {
	all := make([]string, len(p.Live))
	for i, r := range p.Live {
		if all[i] = r.Replica; r.Draining {
			all[i] += " (draining)"
		}
		if len(p.here.RunsOn) > 0 && len(r.Labels) > 0 {
			all[i] += " (" + pairs(r.Labels) + ")"
		}
	}
	return some(all)
}

func (p *pending) listed(replicas []ledger.LiveReplica) []wire.WhyReplica {
	var all []wire.WhyReplica
	for _, r := range replicas[:min(len(replicas), ledger.WhyTasks)] {
		v := wire.WhyReplica{
			ID: r.Replica, State: r.View().State, Kinds: r.Kinds, Any: r.HasPool && r.Kinds == nil, Workers: r.Workers, Running: r.Running,
			PoolWorkers: p.here.Workers, PoolRunning: r.PoolRunning,
		}
		if len(p.here.RunsOn) > 0 {
			v.Labels = r.Labels
		}
		all = append(all, v)
	}
	return all
}

func kindOf(kind string) string {
	if kind == "" {
		return "tasks without a kind"
	}
	return "kind " + clip.Quoted(kind, 80)
}

func pairs(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ", ")
}
