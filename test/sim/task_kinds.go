package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// limitedKind is a kind that every pool has a handler for.
const limitedKind = "k"

// taskKind is the kind of a task.
func taskKind(d draw) string { return pick(d, "", "", "", limitedKind) }

// drawTaskKinds gives pools limits of a kind, in a third of all seeds.
func (p *plan) drawTaskKinds(d draw) {
	if !d.chance(0.33) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		pool := p.Pools[name]
		if name == "default" || pool.Order == jobs.OrderKey || pool.Fair != nil || d.chance(0.3) {
			continue
		}
		of := jobs.KindLimits{MaxRunning: 1 + d.IntN(2)}
		if d.chance(0.4) {
			of = jobs.KindLimits{Rate: jobs.Rate{Count: 4 + d.IntN(10), Per: time.Second}, Burst: d.IntN(3)}
		}
		pool.PerKind = map[string]jobs.KindLimits{limitedKind: of}
		p.Pools[name] = pool
	}
}

// kindLimits are those of the kind in a pool's row, and what has started since it has them.
type kindLimits struct {
	ledger.Limits
	starts *rated
}

// watchPoolKinds gets a pool's row.
func (w *world) watchPoolKinds(r memstore.Pool) {
	is := r.LimitsOfKind(limitedKind)
	if is.None() {
		delete(w.byKind, r.Name)
		return
	}
	if before := w.byKind[r.Name]; before == nil || before.Limits != is {
		w.byKind[r.Name] = &kindLimits{Limits: is, starts: &rated{limits: is, offset: w.offset}}
	}
}

// watchKind gets each change of a task: it begins or stops to run.
func (w *world) watchKind(r memstore.Task, begins, stops bool) {
	if r.Kind != limitedKind || r.Job != "" {
		return
	}
	if stops {
		w.ofKind[r.Pool]--
	}
	if !begins {
		return
	}
	w.ofKind[r.Pool]++
	pool := w.byKind[r.Pool]
	if pool == nil {
		return
	}
	w.counted["starts of a limited kind"]++
	if n := w.ofKind[r.Pool]; pool.MaxRunning > 0 && n > pool.MaxRunning {
		w.violate(r.ID, "%d tasks of kind %s run in pool %s, %d are allowed", n, r.Kind, r.Pool, pool.MaxRunning)
	}
	if pool.Rate != (jobs.Rate{}) {
		w.judgeRate(r, pool.starts)
	}
}
