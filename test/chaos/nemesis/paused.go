//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// pauses are those of everything: nothing is broken, and nothing may be decided or begin.
func pauses() []Nemesis {
	return []Nemesis{{Name: "pause-everything", subject: other, idles: true, Kinds: []history.Kind{history.Paused}, Strike: pauseEverything}}
}

const resumeLimit = 10 * time.Second

// pauseEverything has a replica pause everything, for good or for ten minutes, and another one resume it. It is seen by what the replicas say.
func pauseEverything(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	until := time.Time{}
	if r.IntN(2) == 0 {
		until = time.Now().Add(10 * time.Minute)
	}
	by, ends := r.Perm(len(a.Replicas)), r.Perm(len(a.Replicas))
	if err := byAny(ctx, a, by, func(one *arena.Replica) error { return one.PauseAll(ctx, until) }); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeLimit) // a call without an answer may have done it
		defer cancel()
		return Struck{}, errors.Join(err, byAny(ctx, a, ends, func(one *arena.Replica) error { _, err := one.ResumeAll(ctx); return err }))
	}
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		paused := 0
		for _, one := range a.Replicas {
			if is, err := one.AllPaused(ctx); err == nil && is {
				paused++
			}
		}
		was := false
		err := byAny(ctx, a, ends, func(one *arena.Replica) error {
			is, err := one.ResumeAll(ctx)
			was = was || is
			return err
		})
		return err == nil && (was || paused > 0), fmt.Sprintf("%d replicas said that everything is paused, for good: %t; it was: %t", paused, until.IsZero(), was), err
	}}, nil
}

// byAny asks the replicas in an order, again and again, until one of them does it.
func byAny(ctx context.Context, a *arena.Arena, order []int, do func(*arena.Replica) error) error {
	var errs error
	if poll(ctx, 0, seldom, func() bool {
		errs = nil
		for _, i := range order {
			err := do(a.Replicas[i])
			if err == nil {
				return true
			}
			errs = errors.Join(errs, err)
		}
		return false
	}) {
		return nil
	}
	return fmt.Errorf("no replica does it: %w", errors.Join(errs, ctx.Err()))
}
