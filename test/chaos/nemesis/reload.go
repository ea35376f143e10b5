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

// reloads change what replicas run by, while they run.
func reloads() []Nemesis {
	return []Nemesis{{Name: "reload", subject: replica, waits: true, Kinds: restarts, Strike: reload}}
}

// loadLimit is how long a replica may take to load a file, of which it notices itself that it was written.
const loadLimit = 30 * time.Second

// reload gives replicas other configurations:
//
//  1. one gets a file that is none: it says so, stays ready, and has what it had
//  2. all get a new version, one after the other, by a signal or without: schedules are edited, and a job is added
//  3. one gets the version of before, and starts again, or is told: the new one governs
//  4. to heal it, all get another new version, without that job
func reload(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	before, err := a.Loaded(ctx)
	if err != nil {
		return Struck{}, err
	}
	was, order := a.Version(), r.Perm(len(a.Replicas))
	broken, old := a.Replicas[order[0]], a.Replicas[order[1]]
	restart := r.IntN(2) == 0
	r = rand.New(rand.NewPCG(r.Uint64(), 0)) // it goes on while others are struck
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	went := make(chan error, 1)
	go func() {
		if err := broken.Give(history.EditInvalid, was, r.IntN(2) == 0); err != nil {
			went <- err
			return
		}
		if !poll(ctx, loadLimit, seldom, func() bool { return broken.RefusesFile(ctx) }) {
			went <- fmt.Errorf("%s does not say that its file cannot be used", broken.ID)
			return
		}
		if err := newVersion(ctx, a, r, before); err != nil {
			went <- err
			return
		}
		went <- older(ctx, a, r, old, was, before[old.ID].Hash, restart)
	}()
	return Struck{Replicas: ids(old), Heal: func(healing context.Context) (bool, string, error) {
		defer cancel()
		var err error
		select {
		case err = <-went:
		case <-healing.Done():
			err = healing.Err()
		}
		middle, loaded := a.Loaded(healing)
		err = errors.Join(err, loaded, newVersion(context.WithoutCancel(healing), a, r, middle))
		return err == nil, fmt.Sprintf("%s refused a file, all took version %d, %s had version %d again (restarted: %t), all took version %d", broken.ID, was+1, old.ID, was, restart, was+2), err
	}}, nil
}

// newVersion gives all replicas a new version, and waits until each has it and governs.
func newVersion(ctx context.Context, a *arena.Arena, r *rand.Rand, before map[string]arena.Loaded) error {
	version := a.NewVersion()
	for _, i := range r.Perm(len(a.Replicas)) {
		one := a.Replicas[i]
		if err := one.Give(history.EditNew, version, one.Alive() && r.IntN(2) == 0); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	for _, l := range before {
		known[l.Hash] = true
	}
	var last map[string]arena.Loaded
	if !poll(ctx, loadLimit, seldom, func() bool {
		all, err := a.Loaded(ctx)
		if err != nil {
			return false
		}
		last = all
		hashes := map[string]bool{}
		for _, l := range all {
			hashes[l.Hash] = true
			if known[l.Hash] || !l.Governs {
				return false
			}
		}
		return len(all) == len(a.Replicas) && len(hashes) == 1
	}) {
		return fmt.Errorf("not all replicas took version %d: before %v, now %v", version, before, last)
	}
	return nil
}

// older gives a replica a version of before, and waits until it has that, and another one governs.
func older(ctx context.Context, a *arena.Arena, r *rand.Rand, one *arena.Replica, version int, hash string, restart bool) error {
	if restart {
		drain, cancel := context.WithTimeout(ctx, drainLimit)
		defer cancel()
		_ = one.Drain(drain) // the judge sees how it ended
	}
	if err := one.Give(history.EditOld, version, !restart && r.IntN(2) == 0); err != nil {
		return err
	}
	if restart {
		if err := one.Start(); err != nil {
			return err
		}
	}
	var last map[string]arena.Loaded
	if !poll(ctx, loadLimit, seldom, func() bool {
		all, err := a.Loaded(ctx)
		if err != nil {
			return false
		}
		last = all
		return len(all) == len(a.Replicas) && all[one.ID].Hash == hash && !all[one.ID].Governs
	}) {
		return fmt.Errorf("%s has not loaded version %d (%s) beside a newer one: %v", one.ID, version, hash, last)
	}
	return nil
}
