package store

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// setKinds are the kinds that have limits by an override, by pool, as this process has read them last: with each claim, and with each poll.
// The owner of a task goes by its file, and does not know of them; the end of its task tells those that wait for the kind all the same. An end
// before the process has read them does not, see lookAgain.
type setKinds struct {
	mu sync.Mutex
	by map[string][]string
}

// learn notes what the row of a pool says.
func (k *setKinds) learn(pool string, o *encoded[wire.PoolLimits]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o == nil || len(o.is.PerKind) == 0 {
		delete(k.by, pool)
		return
	}
	if k.by == nil {
		k.by = map[string][]string{}
	}
	k.by[pool] = slices.Collect(maps.Keys(o.is.PerKind))
}

// keep forgets all pools but these.
func (k *setKinds) keep(pools []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.by, func(pool string, _ []string) bool { return !slices.Contains(pools, pool) })
}

func (k *setKinds) have(pool, kind string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.by[pool], kind)
}
