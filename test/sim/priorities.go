package sim

import (
	"maps"
	"slices"
	"time"

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

// readyTask is one that may be claimed, and since when it is as it is. It was last if it came behind all that are due in its pool with its priority.
type readyTask struct {
	memstore.Task
	since time.Time
	last  bool
}

// watchPriority: a task of a job has the job's priority when it is made; and of the tasks of a pool that are ready those with the highest priority are claimed
// first, and of these those that were due first. With w.mu held.
func (w *world) watchPriority(op string, before memstore.Task, existed, began bool, r memstore.Task) {
	if r.Job != "" && !existed && !slices.ContainsFunc(w.specs[r.Job], func(j job) bool { return j.Priority == -r.Rank }) && r.RetryOf == "" {
		w.violate(r.ID, "task %s of %s has the priority %d, which the job has not", r.ID, r.Job, -r.Rank)
	}
	if w.ready[r.Pool] == nil {
		w.ready[r.Pool] = map[string]readyTask{}
	}
	was, is := w.ready[r.Pool][r.ID], readyTask{r, time.Now(), !existed && r.RunAt == r.CreatedAt}
	if was.ID != "" && was.Rank == r.Rank && was.RunAt == r.RunAt {
		is.since, is.last = was.since, was.last
	}
	if delete(w.ready[r.Pool], r.ID); r.State == memstore.Ready {
		w.ready[r.Pool][r.ID] = is
	}
	if owner := w.replicas[r.Replica]; began && op == "claim" && existed && before.State == memstore.Ready && owner != nil && !w.hasLocks(r) && w.inOrder(r.Pool) {
		w.judgeOrder(owner, r)
	}
}

// judgeOrder gets a task that was claimed. With w.mu held.
func (w *world) judgeOrder(owner *replica, r memstore.Task) {
	for _, id := range slices.Sorted(maps.Keys(w.ready[r.Pool])) {
		other := w.ready[r.Pool][id]
		if !w.mayTake(owner, other, r) {
			continue
		}
		if r.Rank < other.Rank {
			w.counted["claimed before others"]++
		}
		if r.Rank > other.Rank || r.Rank == other.Rank && r.RunAt > other.RunAt {
			w.violate(r.ID, "task %s of pool %s was claimed, with priority %d and due at %s, before %s, with %d and due at %s, of job %q, key %q, kind %q, that expires at %s",
				r.ID, r.Pool, -r.Rank, clock(r.RunAt), other.ID, -other.Rank, clock(other.RunAt), other.Job, other.TaskKey, other.Kind, clock(other.ExpiresAt))
		}
	}
}

// mayTake reports whether the claim of a replica that took one task could have taken another one in its place. Its time is that of the start. Of what waits for a
// rate, or for locks, it is not known. With w.mu held.
func (w *world) mayTake(owner *replica, o readyTask, r memstore.Task) bool {
	switch {
	case o.RunAt > r.StartedAt && o.RunAt != o.CreatedAt: // a clock that was wrong made it ready
		return false
	case o.ExpiresAt > 0 && o.Attempt == 0 && o.ExpiresAt <= r.StartedAt:
		return false
	case w.hasLocks(o.Task) || !w.definedAlike(o.Task) || owner.node.index%2 != 0 && w.labelled(o.Task):
		return false
	case w.partlyForeign(r.Pool) && !w.seenBy(owner, o):
		return false
	}
	return w.keyLets(o.Task, r) && w.kindLets(o.Task, r)
}

// inOrder reports whether the order of claims in a pool is known: keys do not share it.
func (w *world) inOrder(pool string) bool {
	return w.plan.Pools[pool].Fair == nil && w.plan.EditedPools[pool].Fair == nil
}

// hasLocks reports whether a task has locks in some version. With w.mu held.
func (w *world) hasLocks(r memstore.Task) bool {
	if r.Job != "" {
		return slices.ContainsFunc(w.specs[r.Job], func(j job) bool { return len(j.Locks) > 0 })
	}
	return len(w.plan.Pools[r.Pool].Locks) > 0 || len(w.plan.EditedPools[r.Pool].Locks) > 0
}

// labelled reports whether a task is for some replicas alone in some version. With w.mu held.
func (w *world) labelled(r memstore.Task) bool {
	return slices.ContainsFunc(w.specs[r.Job], func(j job) bool { return j.RunsOn != nil })
}

// definedAlike reports whether each version has what runs a task in the same way. With w.mu held.
func (w *world) definedAlike(r memstore.Task) bool {
	by := ruledBy(r.Job, r.Pool)
	return w.defined[0][by] != "" && !slices.ContainsFunc(w.defined, func(defined map[string]string) bool { return defined[by] != w.defined[0][by] })
}

// partlyForeign reports whether some replicas may be unable to run some tasks of a pool. They look which part of it they can run, and claim there for a while. With w.mu held.
func (w *world) partlyForeign(pool string) bool {
	if !w.definedAlike(memstore.Task{Pool: pool}) {
		return true
	}
	for name, specs := range w.specs {
		foreign := !w.definedAlike(memstore.Task{Job: name})
		if slices.ContainsFunc(specs, func(j job) bool { return j.Pool == pool && (foreign || j.RunsOn != nil) }) {
			return true
		}
	}
	return false
}

// looksAgain is how long a replica claims where it found work.
const looksAgain = 1200 * time.Millisecond

// seenBy reports whether a replica had looked again since a task was ready when it made the claim that ends now. It looks behind those that it has passed, since it
// cannot run them: a task that comes among them, as one does whose key was busy, may be found ten seconds later. With w.mu held.
func (w *world) seenBy(owner *replica, o readyTask) bool {
	passed := !o.last || o.TaskKey != "" && w.byKey[o.Pool] != nil || o.Kind == limitedKind && w.byKind[o.Pool] != nil
	return !passed && o.since.Before(time.Now().Add(-looksAgain)) && w.untouched(owner, o.since.Add(-answered))
}

// keyLets reports whether the key of a task lets it start, beside all that run but another one. With w.mu held.
func (w *world) keyLets(r, but memstore.Task) bool {
	pool := w.byKey[r.Pool]
	if r.TaskKey == "" || pool == nil {
		return true
	}
	k := keyOf{r.Pool, r.TaskKey}
	if pool.limits.Rate.Interval() > 0 || pool.ordered && w.withKey[k][0] != r.ID {
		return false
	}
	most := pool.limits.MaxRunning
	if pool.ordered {
		most = 1
	}
	running := len(w.inKey[k])
	if but.TaskKey == r.TaskKey {
		running--
	}
	return most == 0 || running < most
}

// kindLets is keyLets for the kind of a task. With w.mu held.
func (w *world) kindLets(r, but memstore.Task) bool {
	pool := w.byKind[r.Pool]
	if r.Kind != limitedKind || r.Job != "" || pool == nil {
		return true
	}
	running := w.ofKind[r.Pool]
	if but.Kind == r.Kind && but.Job == "" {
		running--
	}
	return pool.Rate.Interval() == 0 && (pool.MaxRunning == 0 || running < pool.MaxRunning)
}
