//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// twins start a second process with a replica's id. Nothing is excused: the twin must be refused, and
// the replica must not notice.
func twins() []Nemesis {
	return []Nemesis{{Name: "twin", subject: replica, waits: true, Hold: 4 * arena.SessionTTL, Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victim, err := pick(a, r)
		if err != nil {
			return Struck{}, err
		}
		pid, err := victim.Twin()
		if err != nil {
			return Struck{}, err
		}
		return Struck{Replicas: ids(victim), Heal: func(context.Context) (bool, string, error) {
			ended, refused := victim.Untwin()
			if ended == 0 {
				return true, fmt.Sprintf("process %d went on beside the other %s", pid, victim.ID), errors.New("a second replica with the same id was not refused")
			}
			return refused > 0, fmt.Sprintf("process %d ended beside the other %s; refused: %t", pid, victim.ID, refused > 0), nil
		}}, nil
	}}}
}
