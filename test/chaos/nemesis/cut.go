//go:build linux

package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// Slow networks: between 50 ms and 2 s a way, and so slow that an answer takes longer than any timeout.
var (
	jitter  = proxy.Slow(50*time.Millisecond, 1950*time.Millisecond)
	far     = proxy.Slow(50*time.Millisecond, 100*time.Millisecond)
	trickle = proxy.Fault{Up: proxy.Lane{BytesPerSecond: 300}, Down: proxy.Lane{BytesPerSecond: 300}}
)

// cuts break the network between replicas and a server.
func cuts() []Nemesis {
	return []Nemesis{
		cut("cut-lock", one, lockSide, lockGone, proxy.BlackHole),
		cut("reset-lock", one, lockSide, lockGone, proxy.Resets),
		cut("oneway-lock", one, lockSide, lockGone, proxy.OneWay),
		cut("mute-lock", one, lockSide, lockGone, proxy.LoseReplies),
		cut("slow-lock", one, lockSide, lockSlow, jitter),
		cut("trickle-lock", one, lockSide, []history.Kind{history.LockSlow, history.LockDown}, trickle),
		cut("far-lock", allReplicas, lockSide, lockSlow, far),
		cut("cut-lock-all", allReplicas, lockSide, lockGone, proxy.BlackHole),

		cut("cut-store", one, storeSide, storeDown, proxy.BlackHole),
		cut("reset-store", one, storeSide, storeDown, proxy.Resets),
		cut("oneway-store", one, storeSide, storeDown, proxy.OneWay),
		cut("mute-store", one, storeSide, storeDown, proxy.LoseReplies),
		cut("slow-store", one, storeSide, storeSlow, jitter),
		cut("trickle-store", one, storeSide, []history.Kind{history.StoreSlow, history.StoreDown}, trickle),
		cut("far-store", allReplicas, storeSide, storeFar, far),
		spared(cut("cut-store-all", allReplicas, storeSide, storeDown, proxy.BlackHole)),
	}
}

func spared(n Nemesis) Nemesis {
	n.Spares = true
	return n
}

// side is what replicas are cut from.
type side struct {
	subject subject
	fits    func(arena.Cell) bool
	edges   func(*arena.Replica) []*proxy.Proxy
}

var (
	lockSide  = side{lockEdge, overNetwork, func(r *arena.Replica) []*proxy.Proxy { return r.LockEdges }}
	storeSide = side{storeEdge, onMariaDB, func(r *arena.Replica) []*proxy.Proxy { return r.StoreEdges }}
)

func cut(name string, whom chooser, side side, kinds []history.Kind, fault proxy.Fault) Nemesis {
	return Nemesis{Name: name, subject: side.subject, Kinds: kinds, Fits: side.fits, Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victims, err := whom(a, r)
		if err != nil {
			return Struck{}, err
		}
		var broken []*proxy.Proxy
		for _, v := range victims {
			broken = append(broken, side.edges(v)...)
		}
		before := total(broken)
		setAll(broken, fault)
		return Struck{Replicas: ids(victims...), Heal: func(context.Context) (bool, string, error) {
			after := total(broken)
			setAll(broken, proxy.Fault{})
			held, lost, reset := after.Held-before.Held, after.Lost-before.Lost, after.Reset-before.Reset
			passed := after.Up + after.Down - before.Up - before.Down
			applied := held+lost > 0 || reset > 0
			if fault.Up.Delay > 0 || fault.Up.BytesPerSecond > 0 {
				applied = passed > 0 // each byte of them late
			}
			return applied, fmt.Sprintf("%d edges: %d bytes held, %d lost, %d passed, %d connections reset", len(broken), held, lost, passed, reset), nil
		}}, nil
	}}
}

func setAll(edges []*proxy.Proxy, f proxy.Fault) {
	for _, e := range edges {
		e.Set(f)
	}
}

func total(edges []*proxy.Proxy) (sum proxy.Counts) {
	for _, e := range edges {
		sum = sum.Add(e.Counts())
	}
	return sum
}
