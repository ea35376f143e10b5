//go:build linux

package nemesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

var restarts = []history.Kind{history.Restarts}

// changes are the work of operators. Two versions beside each other are tested by test/compat, which has the
// programs of both.
func changes() []Nemesis {
	return []Nemesis{
		{Name: "rolling-restart", subject: replica, Kinds: restarts, Strike: roll(nil)},
		// A replica takes a new configuration when it starts; until the last one has, they differ.
		{Name: "rolling-reload", subject: replica, Kinds: restarts, Strike: roll(edit)},
	}
}

const (
	drainLimit = arena.DrainTimeout + 10*time.Second
	readyLimit = 5 * time.Second // the judge sees which are not ready
)

// roll restarts the replicas one by one.
func roll(between func(*arena.Replica) error) strike {
	return func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		order := r.Perm(len(a.Replicas))
		ctx = context.WithoutCancel(ctx)
		rolled := make(chan error, 1)
		drained := 0
		go func() {
			var errs error
			for _, i := range order {
				one := a.Replicas[i]
				if one.Alive() {
					drained++
				}
				drain, cancel := context.WithTimeout(ctx, drainLimit)
				_ = one.Drain(drain) // the judge sees how it ended
				cancel()
				if between != nil {
					errs = errors.Join(errs, between(one))
				}
				errs = errors.Join(errs, one.Start())
				ready, cancel := context.WithTimeout(ctx, readyLimit)
				_ = one.WaitReady(ready)
				cancel()
			}
			rolled <- errs
		}()
		return Struck{Heal: func(context.Context) (bool, string, error) {
			err := <-rolled
			return drained == len(order), fmt.Sprintf("%d replicas were drained, and started again", drained), err
		}}, nil
	}
}

// edit changes settings that no promise depends on, and changes them back the next time.
func edit(r *arena.Replica) error {
	text, err := os.ReadFile(r.Config)
	if err != nil {
		return err
	}
	const was, is = arena.Toggle, arena.Toggled
	switch {
	case bytes.Contains(text, []byte(was)):
		text = bytes.ReplaceAll(text, []byte(was), []byte(is))
	case bytes.Contains(text, []byte(is)):
		text = bytes.ReplaceAll(text, []byte(is), []byte(was))
	default:
		return errors.New("the configuration has no timeout of a minute")
	}
	whole := r.Config + ".new" // programs beside the replica read the file at any time
	if err := os.WriteFile(whole, text, 0o600); err != nil {
		return err
	}
	return os.Rename(whole, r.Config)
}
