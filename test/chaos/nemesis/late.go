//go:build linux

package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// Replies come late, each of them, and then none comes: the last answer is older than it looks.
const (
	replyAfter = 700 * time.Millisecond
	lateFor    = 4 * time.Second
)

// late delays the replies of lock servers to one replica, and then disconnects it.
func late() []Nemesis {
	return []Nemesis{{Name: "slow-then-cut-lock", subject: lockEdge, Kinds: lockDown, Hold: lateFor + 2*arena.LockTTL, Fits: overNetwork, Strike: slowThenCut}}
}

func slowThenCut(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	setAll(victim.LockEdges, proxy.Fault{Down: proxy.Lane{Delay: replyAfter}})
	// The last replies still come: without them the lease would not look younger than it is.
	silence := proxy.Fault{Up: proxy.Lane{Hold: true}, Down: proxy.Lane{Delay: replyAfter}}
	cut := time.AfterFunc(lateFor, func() { setAll(victim.LockEdges, silence) })
	return Struck{Replicas: ids(victim), Heal: func(context.Context) (bool, string, error) {
		early := cut.Stop()
		held := total(victim.LockEdges).Held
		setAll(victim.LockEdges, proxy.Fault{})
		return !early && held > 0, fmt.Sprintf("replies came %v late for %v, then %d bytes were held", replyAfter, lateFor, held), nil
	}}, nil
}
