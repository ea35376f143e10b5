package memstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func stride(weights map[string]int, key string) int64 {
	return strideOfOne / int64(cmp.Or(weights[key], 1))
}

// inTurn puts candidates into the order in which their keys start them, if the pool shares itself between keys, and there are more than
// there is room for.
func (t *tx) inTurn(pool Pool, candidates []Task, room int) (all []Task, shared bool) {
	weights := pool.fair()
	if weights == nil || len(candidates) <= room {
		return candidates, false
	}
	queues, pass, waited := map[string][]Task{}, map[string]int64{}, map[string]bool{}
	for _, r := range candidates {
		waited[r.TaskKey] = waited[r.TaskKey] || r.waitsForKey()
	}
	for _, r := range candidates {
		if r.Job != "" {
			all = append(all, r)
			continue
		}
		queues[r.TaskKey] = append(queues[r.TaskKey], r)
		k := t.taskKey(r)
		if at := pool.KeyPass + stride(weights, r.TaskKey); !waited[r.TaskKey] && k.Pass < at { // it joins
			k.Pass = at
			put(t, &t.taskKeys, k)
		}
	}
	slowest := int64(0)
	for key := range queues {
		slowest = max(slowest, stride(weights, key))
	}
	for key, tasks := range queues {
		k := t.taskKey(tasks[0])
		if at := pool.KeyPass - slowest; k.Pass < at { // it was full
			k.Pass = at
			put(t, &t.taskKeys, k)
		}
		pass[key] = k.Pass
	}
	for len(queues) > 0 {
		next := slices.MinFunc(slices.Sorted(maps.Keys(queues)), func(a, b string) int { return cmp.Compare(pass[a], pass[b]) })
		all = append(all, queues[next][0])
		pass[next] += stride(weights, next)
		if queues[next] = queues[next][1:]; len(queues[next]) == 0 {
			delete(queues, next)
		}
	}
	return all, true
}

// startInTurn moves the pass of the key of a task ahead that has started in its turn.
func (t *tx) startInTurn(r Task) {
	pool := t.pools.rows[r.Pool]
	if r.Job != "" {
		return
	}
	k := t.taskKey(r)
	pool.KeyPass = max(k.Pass, pool.KeyPass)
	k.Pass += stride(pool.fair(), r.TaskKey)
	put(t, &t.taskKeys, k)
	put(t, &t.pools, pool)
}

// startKey takes a start from the kind and the key of a task.
func (t *tx) startKey(r Task) {
	if kind, limited := t.ofItsKind(r); limited {
		l, k := t.pools.rows[r.Pool].limitsOf(kind.TaskKey), t.taskKey(kind)
		if l.Rate != (jobs.Rate{}) {
			k.Bucket = l.Started(l.Possible(k.Bucket, t.now()), t.now(), 1)
			put(t, &t.taskKeys, k)
		}
	}
	if l := t.pools.rows[r.Pool].KeyLimits(); r.TaskKey != "" && l.Rate != (jobs.Rate{}) {
		k := t.taskKey(r)
		k.Bucket = l.Started(l.Possible(k.Bucket, t.now()), t.now(), 1)
		put(t, &t.taskKeys, k)
	}
}
