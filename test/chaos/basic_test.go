package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

func victim(a *arena.Arena, r *rand.Rand) *arena.Replica { return a.Replicas[r.IntN(len(a.Replicas))] }

var kill = nemesis.Nemesis{
	Name: "kill-group", Kinds: []history.Kind{history.ReplicaDown},
	Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (nemesis.Struck, error) {
		v := victim(a, r)
		pid := v.PID()
		if err := v.KillGroup(); err != nil {
			return nemesis.Struck{}, err
		}
		return nemesis.Struck{Replicas: []string{v.ID}, Heal: func(context.Context) (bool, string, error) {
			return true, fmt.Sprintf("process %d is gone", pid), v.Start()
		}}, nil
	},
}

var freeze = nemesis.Nemesis{
	Name: "sigstop-parent", Kinds: []history.Kind{history.ReplicaFrozen}, Hold: arena.SessionTTL * 5 / 2,
	Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (nemesis.Struck, error) {
		v := victim(a, r)
		if err := v.Signal(syscall.SIGSTOP); err != nil {
			return nemesis.Struck{}, err
		}
		return nemesis.Struck{Replicas: []string{v.ID}, Heal: func(context.Context) (bool, string, error) {
			return true, fmt.Sprintf("process %d was stopped", v.PID()), v.Signal(syscall.SIGCONT)
		}}, nil
	},
}

func cut(name string, kind history.Kind, edges func(*arena.Replica) []*proxy.Proxy) nemesis.Nemesis {
	return nemesis.Nemesis{
		Name: name, Kinds: []history.Kind{kind},
		Fits: func(c arena.Cell) bool {
			return c.Store == arena.MariaDB && kind == history.StoreDown || kind == history.LockDown && !c.LockInStore()
		},
		Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (nemesis.Struck, error) {
			v := victim(a, r)
			for _, e := range edges(v) {
				e.Set(proxy.BlackHole)
			}
			return nemesis.Struck{Replicas: []string{v.ID}, Heal: func(context.Context) (bool, string, error) {
				var held int64
				for _, e := range edges(v) {
					held += e.Counts().Held
					e.Set(proxy.Fault{})
				}
				return held > 0, fmt.Sprintf("%d bytes held back", held), nil
			}}, nil
		},
	}
}

func basics() []nemesis.Nemesis {
	return []nemesis.Nemesis{
		kill, freeze,
		cut("cut-lock", history.LockDown, func(r *arena.Replica) []*proxy.Proxy { return r.LockEdges }),
		cut("cut-store", history.StoreDown, func(r *arena.Replica) []*proxy.Proxy { return r.StoreEdge }),
	}
}

var _ = time.Second
