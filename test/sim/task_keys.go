package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawTaskKeys gives pools limits or an order of the tasks with one key, in a third of all seeds. At every limit what is due comes to rest in
// time.
func (p *plan) drawTaskKeys(d draw) {
	if !d.chance(0.33) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		pool := p.Pools[name]
		if name == "default" || d.chance(0.3) {
			continue
		}
		if d.chance(0.3) {
			pool.Fair = &jobs.Fair{Weights: map[string]int{"a": 2}}
		}
		switch d.IntN(4) {
		case 3:
		case 0:
			pool.PerKey.MaxRunning = 1 + d.IntN(2)
		case 1:
			pool.PerKey = jobs.KeyLimits{Rate: jobs.Rate{Count: 4 + d.IntN(10), Per: time.Second}, Burst: d.IntN(3)}
		default:
			pool.Order = jobs.OrderKey
		}
		p.Pools[name] = pool
	}
}

// taskKey is the key of a task.
func taskKey(d draw) string { return pick(d, "", "a", "a", "b", "c") }

// keyOf is a key of a pool.
type keyOf struct{ pool, key string }

// watchKeyStart gets a task that has become running, of a pool with limits or an order by key.
func (w *world) watchKeyStart(r memstore.Task) {
	k := keyOf{r.Pool, r.TaskKey}
	pool := w.byKey[r.Pool]
	if r.TaskKey == "" || pool == nil {
		return
	}
	w.counted["starts with a key"]++
	if n := len(w.inKey[k]); pool.limits.MaxRunning > 0 && n > pool.limits.MaxRunning {
		w.violate(r.ID, "%d tasks run with key %s of pool %s, %d are allowed", n, r.TaskKey, r.Pool, pool.limits.MaxRunning)
	}
	if first := w.withKey[k][0]; pool.ordered && first != r.ID {
		w.violate(r.ID, "task %s with key %s of pool %s started before %s, which was enqueued first", r.ID, r.TaskKey, r.Pool, first)
	}
	if pool.limits.Rate != (jobs.Rate{}) {
		if pool.starts[r.TaskKey] == nil {
			pool.starts[r.TaskKey] = &rated{limits: pool.limits, offset: w.offset}
		}
		w.judgeRate(r, pool.starts[r.TaskKey])
	}
}

// poolKeys is what a pool's row says of keys.
type poolKeys struct {
	limits  ledger.Limits
	ordered bool
	starts  map[string]*rated // by key
}

// watchPoolKeys gets a pool's row.
func (w *world) watchPoolKeys(r memstore.Pool) {
	is := poolKeys{limits: r.KeyLimits(), ordered: r.KeyOrder != "", starts: map[string]*rated{}}
	switch before := w.byKey[r.Name]; {
	case !r.ByKey():
		delete(w.byKey, r.Name)
	case before == nil || before.limits != is.limits || before.ordered != is.ordered:
		w.byKey[r.Name] = &is
	}
}

// watchKey gets each change of a task with a key: it is new, begins or stops to run, or ends.
func (w *world) watchKey(r memstore.Task, isNew, begins, stops, ends bool) {
	if r.TaskKey == "" {
		return
	}
	k := keyOf{r.Pool, r.TaskKey}
	without := func(ids []string) []string {
		return slices.DeleteFunc(ids, func(id string) bool { return id == r.ID })
	}
	if isNew {
		w.withKey[k] = append(w.withKey[k], r.ID)
	}
	if stops {
		w.inKey[k] = without(w.inKey[k])
	}
	if ends {
		w.withKey[k] = without(w.withKey[k])
	}
	if begins {
		w.inKey[k] = append(w.inKey[k], r.ID)
		w.watchKeyStart(r)
	}
}
