package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// tenants is a world in which keys share a pool that has many more tasks than room. In odd ones a key may be full.
func tenants(seed uint64) *plan {
	p := small(seed, nil)
	p.Replicas = 2
	pool := jobs.Pool{Workers: 4, MaxRunning: 3, OnLost: jobs.LostRetries, Timeout: 20 * time.Second, Fair: &jobs.Fair{Weights: map[string]int{"a": 2}}}
	if seed%2 == 1 {
		pool.PerKey.MaxRunning = 2
	}
	p.Pools["p0"] = pool
	for i := range 4 {
		p.Steps = append(p.Steps, step{At: time.Duration(1+2*i) * time.Second, Kind: enqueues, Name: "p0", N: 30})
	}
	return p
}

// In a pool that keys share none is passed over. A store that starts tasks as they came is found.
func TestNoKeyIsPassedOver(t *testing.T) {
	t.Parallel()
	counted, found := 0, 0
	for seed := range uint64(20) {
		w := simulate(t, tenants(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		counted += w.counted["keys passed over"]
		w = simulate(t, tenants(seed+1), func(s ledger.Store) ledger.Store { return &unshared{s} })
		if slices.ContainsFunc(w.violations, func(v violation) bool { return strings.Contains(v.text, "was passed over") }) {
			found++
		}
	}
	if counted == 0 || found == 0 {
		t.Errorf("keys were passed over %d times, the bug was found %d times", counted, found)
	}
}

// unshared is a store in which keys do not share pools.
type unshared struct{ ledger.Store }

func (s *unshared) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, withoutShares(d))
}

func (s *unshared) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, withoutShares(d))
}

func withoutShares(d ledger.Definitions) ledger.Definitions {
	d.Pools = slices.Clone(d.Pools)
	for i := range d.Pools {
		if d.Pools[i].Fair != nil {
			d.Pools[i].Fair, d.Pools[i].PerKey.MaxRunning = nil, 99
		}
	}
	return d
}
