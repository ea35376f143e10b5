//go:build linux

package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// losses break single commands to MariaDB in a way that the replica cannot distinguish: lost before they took
// effect, or after.
func losses() []Nemesis {
	return []Nemesis{
		{Name: "lose-commits", subject: storeEdge, Kinds: storeSlow, Fits: onMariaDB, Strike: lose(0.3, func(c proxy.Command) bool { return c.Is("COMMIT") })},
		{Name: "lose-commands", subject: storeEdge, Kinds: storeSlow, Fits: onMariaDB, Strike: lose(0.03, func(proxy.Command) bool { return true })},
	}
}

// lose loses a share of the commands that are meant, of all replicas.
func lose(share float64, meant func(proxy.Command) bool) strike {
	return func(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		r = rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) // others use theirs meanwhile
		var mu sync.Mutex
		lost := map[proxy.Verdict]int{}
		judge := func(c proxy.Command) proxy.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if !meant(c) || r.Float64() >= share {
				return proxy.Pass
			}
			verdict := proxy.LoseReply
			switch n := r.IntN(10); {
			case n < 3:
				verdict = proxy.LoseRequest
			case n < 4:
				verdict = proxy.SwallowReply
			}
			lost[verdict]++
			return verdict
		}
		judgeAll(a, judge)
		return Struck{Heal: func(context.Context) (bool, string, error) {
			judgeAll(a, nil)
			for _, replica := range a.Replicas { // replicas that get no answers are disconnected
				for _, e := range replica.StoreEdges {
					e.Set(proxy.Fault{})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			return lost[proxy.LoseReply]+lost[proxy.SwallowReply] > 0, fmt.Sprintf("lost %d requests, %d answers, and %d answers without a reset",
				lost[proxy.LoseRequest], lost[proxy.LoseReply], lost[proxy.SwallowReply]), nil
		}}, nil
	}
}

func judgeAll(a *arena.Arena, judge func(proxy.Command) proxy.Verdict) {
	for _, replica := range a.Replicas {
		for _, e := range replica.StoreEdges {
			e.Judge(judge)
		}
	}
}
