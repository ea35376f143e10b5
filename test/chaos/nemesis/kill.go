//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

var (
	down     = []history.Kind{history.ReplicaDown}
	bothDown = []history.Kind{history.ReplicaDown, history.HelperDown}
)

// kills end replicas that have work with SIGKILL. They are started again when the window is over.
func kills() []Nemesis {
	return []Nemesis{
		// Its commands go on, and have to be ended by its warden.
		{Name: "kill-parent", subject: replica, Kinds: down, Strike: kill(false, (*arena.Replica).Kill)},
		{Name: "kill-group", subject: replica, Kinds: bothDown, Strike: kill(false, (*arena.Replica).KillGroup)},
		// A power cut: no replica is left to expire the others.
		{Name: "kill-all", subject: replica, leaves: true, Kinds: bothDown, Strike: kill(true, (*arena.Replica).KillGroup)},
	}
}

// kill ends one replica that runs commands, or all of them as soon as one does.
func kill(all bool, how func(*arena.Replica) error) strike {
	return func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victim, busy, err := pickBusy(ctx, a, r)
		if err != nil {
			return Struck{}, err
		}
		victims := []*arena.Replica{victim}
		if all {
			victims = a.Replicas
		}
		var gone []string
		for _, v := range victims {
			pid := v.PID()
			err = errors.Join(err, how(v))
			if state(pid) == "" {
				gone = append(gone, fmt.Sprintf("process %d of %s is gone", pid, v.ID))
			}
		}
		return Struck{Replicas: ids(victims...), Heal: func(context.Context) (bool, string, error) {
			for _, v := range victims {
				if !v.Alive() {
					err = errors.Join(err, v.Start())
				}
			}
			return len(gone) == len(victims), fmt.Sprintf("%v; %s ran %d commands", gone, victim.ID, busy), err
		}}, nil
	}
}
