package work

import (
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// A pool has its workers and no more than the replica has left; notifications have workers of their own. A pool that asked
// for more than there was is called, once, as soon as any slot is free.
func TestSlots(t *testing.T) {
	var freed []string
	of := &plan.Plan{Pools: map[string]*plan.Pool{}}
	for name, workers := range map[string]int{"a": 3, "b": 4, naming.NotificationsPool: 2} {
		p := &plan.Pool{Name: name}
		p.Workers = workers
		of.Pools[name] = p
	}
	s := newSlots(5, of, func(pool string) { freed = append(freed, pool) })
	take := func(pool string, n, want int) {
		t.Helper()
		if got := s.take(pool, n); got != want {
			t.Errorf("%d of %d slots of %s are taken, not %d", got, n, pool, want)
		}
	}
	room := func(want map[string]int) {
		t.Helper()
		for pool, n := range want {
			if got := s.room(pool); got != n {
				t.Errorf("%s has room for %d, not %d", pool, got, n)
			}
		}
	}
	give := func(pool string, n int, want ...string) {
		t.Helper()
		freed = nil
		s.give(pool, n)
		if slices.Sort(freed); !slices.Equal(freed, want) {
			t.Errorf("%d of %s: told are %q, not %q", n, pool, freed, want)
		}
	}
	room(map[string]int{"a": 3, "b": 4, naming.NotificationsPool: 2, "unknown": 0})
	give("a", 0)
	take("a", 2, 2)
	give("a", 1, "unknown") // which asked for room, and there was none
	take("a", 1, 1)
	give("a", 1) // enough was there for all
	take("a", 1, 1)
	room(map[string]int{"a": 1, "b": 3})
	take("b", 4, 3)
	room(map[string]int{"b": 0, naming.NotificationsPool: 2})
	give("b", 1, "b")
	room(map[string]int{"a": 1, "b": 1})
	take("b", 1, 1)
	take("a", 1, 0) // it has a worker, and the replica has none
	take(naming.NotificationsPool, 3, 2)
	give(naming.NotificationsPool, 2, "a", naming.NotificationsPool)
	room(map[string]int{naming.NotificationsPool: 2, "a": 0})
	give("b", 3, "a")
	room(map[string]int{"a": 1, "b": 3})
	give("a", 2)
	room(map[string]int{"a": 3, "b": 4})

	s.closed = func(pool string) bool { return pool == "a" }
	room(map[string]int{"a": 0, "b": 4})
	take("a", 1, 0)
	give("b", 0)
	take("b", 1, 1)
	give("b", 1, "a")
}
