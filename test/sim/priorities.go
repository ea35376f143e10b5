package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawPriorities gives the tasks of some jobs a priority. Another configuration may have another one.
func (p *plan) drawPriorities() {
	for version, set := range p.versions() {
		for name, j := range set {
			if d := keyed(p.Seed, "priority of "+name, version); d.chance(0.4) {
				j.Priority = pick(d, -2, -1, 1, 2)
				set[name] = j
			}
		}
	}
}

// inLine reports whether a replica that claims tasks of a pool may take each of them: none is for some replicas alone, waits for a lock, or for its key or kind.
func (p *plan) inLine(pool string) bool {
	is := p.Pools[pool]
	if p.Edited != nil || is.RunsOn != nil || is.Fair != nil || is.Order != "" || is.PerKey != (jobs.KeyLimits{}) || len(is.PerKind) > 0 || len(is.Locks) > 0 {
		return false
	}
	for _, j := range p.Jobs {
		if j.Pool == pool && (j.RunsOn != nil || len(j.Locks) > 0) {
			return false
		}
	}
	return !slices.ContainsFunc(p.Steps, func(s step) bool {
		return s.Kind == limitsPool && s.Name == pool && s.Limits != nil && (s.Limits.PerKey != nil || len(s.Limits.PerKind) > 0)
	})
}

// watchPriority: a task of a job has the job's priority when it is made; and of the tasks of a pool that are ready those with the highest priority are claimed
// first, and of these those that were due first. With w.mu held.
func (w *world) watchPriority(op string, existed, began bool, r memstore.Task) {
	if r.Job != "" && !existed && !slices.ContainsFunc(w.specs[r.Job], func(j job) bool { return j.Priority == -r.Rank }) && r.RetryOf == "" {
		w.violate(r.ID, "task %s of %s has the priority %d, which the job has not", r.ID, r.Job, -r.Rank)
	}
	if w.ready[r.Pool] == nil {
		w.ready[r.Pool] = map[string]memstore.Task{}
	}
	if delete(w.ready[r.Pool], r.ID); r.State == memstore.Ready {
		w.ready[r.Pool][r.ID] = r
	}
	if !began || op != "claim" || !w.inLines[r.Pool] || w.weather.bad(-1, time.Time{}, dbSteps) {
		return
	}
	now := time.Now().Add(w.offset)
	if owner := w.replicas[r.Replica]; owner == nil || w.weather.bad(-1, now.Add(-answered), stalls) || w.weather.bad(owner.node.index, now.Add(-answered), stalls) {
		now = now.Add(-answered) // it is claimed by an earlier time
	}
	for _, id := range slices.Sorted(maps.Keys(w.ready[r.Pool])) {
		other := w.ready[r.Pool][id]
		if other.ExpiresAt > 0 || other.RunAt >= now.UnixMicro() {
			continue
		}
		if r.Rank < other.Rank {
			w.counted["claimed before others"]++
		}
		if r.Rank > other.Rank || r.Rank == other.Rank && r.RunAt > other.RunAt {
			w.violate(r.ID, "task %s of pool %s was claimed, with priority %d and due at %s, before %s, with %d and due at %s", r.ID, r.Pool, -r.Rank, clock(r.RunAt), other.ID, -other.Rank, clock(other.RunAt))
		}
	}
}
