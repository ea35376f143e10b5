package sim

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A store that claims what comes last is found: where nothing but the order decides, and for what has keys, kinds, labels or locks beside it, is edited, expires, or
// is claimed under a clock that was stepped.
func TestClaimsOutOfOrderAreFound(t *testing.T) {
	pool := func(has func(p jobs.Pool) bool) func(w *world, pool string) bool {
		return func(w *world, pool string) bool { return has(w.plan.Pools[pool]) }
	}
	jobOf := func(has func(j job) bool) func(w *world, pool string) bool {
		return func(w *world, pool string) bool {
			for _, j := range w.plan.Jobs {
				if j.Pool == pool && has(j) {
					return true
				}
			}
			return false
		}
	}
	for what, lie := range some(map[string]struct {
		said string
		in   func(w *world, pool string) bool
	}{
		"of plain pools": {`was claimed, with priority`, func(w *world, pool string) bool {
			is := w.plan.Pools[pool]
			return w.plan.Edited == nil && is.PerKey == jobs.KeyLimits{} && is.Order == "" && len(is.PerKind) == 0
		}},
		"of keys with a limit": {`was claimed, .*, key "[abc]"`, pool(func(p jobs.Pool) bool { return p.PerKey.MaxRunning > 0 })},
		"of keys in order":     {`was claimed, .*, key "[abc]"`, pool(func(p jobs.Pool) bool { return p.Order == jobs.OrderKey })},
		"of a limited kind":    {`was claimed, .*, kind "k"`, pool(func(p jobs.Pool) bool { return p.PerKind[limitedKind].MaxRunning > 0 })},
		"with labels":          {`was claimed, with priority`, jobOf(func(j job) bool { return j.RunsOn != nil })},
		"beside locks":         {`was claimed, with priority`, jobOf(func(j job) bool { return len(j.Locks) > 0 })},
		"that was edited":      {`was claimed, with priority`, func(w *world, _ string) bool { return w.plan.Edited != nil }},
		"of jobs":              {`was claimed, .*, of job "\w`, func(*world, string) bool { return true }},
		"under a stepped clock": {`was claimed, with priority`, func(w *world, _ string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.offset != 0
		}},
	}) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, lie.said, func(seed uint64) *world {
				return simulate(t, newPlan(seed), func(s ledger.Store) ledger.Store { return hindmost{s, lie.in} })
			})
		})
	}
	t.Run("that expires", func(t *testing.T) {
		t.Parallel()
		isFound(t, 300, `was claimed, .*, that expires at \d`, func(seed uint64) *world {
			p := newPlan(seed)
			p.mistake = memstore.ExpiringLast
			return simulate(t, p, nil)
		})
	})
}
