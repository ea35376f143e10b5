//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// workers strike a process that takes tasks over HTTP, while it runs some.
func workers() []Nemesis {
	return []Nemesis{
		{Name: "worker-killed", subject: worker, waits: true, Kinds: []history.Kind{history.WorkerDown}, Strike: killWorker},
		{Name: "worker-frozen", subject: worker, waits: true, Kinds: []history.Kind{history.WorkerFrozen}, Hold: frozenFor, Strike: freezeWorker},
		{Name: "worker-cut", subject: worker, waits: true, Kinds: []history.Kind{history.WorkerCut}, Hold: frozenFor, Strike: cutWorker},
	}
}

// pickWorker is a worker that runs tasks, and how many. It waits for one until ctx ends.
func pickWorker(ctx context.Context, a *arena.Arena, r *rand.Rand) (victim *arena.Worker, busy int, err error) {
	found := poll(ctx, 0, seldom, func() bool {
		var at map[string]int
		if at, err = a.AtWork(ctx); err != nil {
			return false
		}
		for _, i := range r.Perm(len(a.Workers)) {
			if one := a.Workers[i]; at[one.Name] > 0 && one.PID() != 0 && !stopped(one.PID()) {
				victim, busy = one, at[one.Name]
				return true
			}
		}
		return false
	})
	if !found {
		return nil, 0, errors.Join(errors.New("no worker runs a task"), err, ctx.Err())
	}
	return victim, busy, nil
}

func killWorker(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, busy, err := pickWorker(ctx, a, r)
	if err != nil {
		return Struck{}, err
	}
	pid := victim.PID()
	if err := victim.Kill(); err != nil {
		return Struck{}, err
	}
	return Struck{Replicas: []string{victim.Name}, Heal: func(context.Context) (bool, string, error) {
		gone := state(pid) == ""
		victim.Release()
		return gone, fmt.Sprintf("process %d of %s, which ran %d tasks, is gone: %t", pid, victim.Name, busy, gone), nil
	}}, nil
}

func freezeWorker(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, busy, err := pickWorker(ctx, a, r)
	if err != nil {
		return Struck{}, err
	}
	pid := victim.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return Struck{}, err
	}
	return Struck{Replicas: []string{victim.Name}, Heal: func(context.Context) (bool, string, error) {
		stood := stopped(pid)
		return stood, fmt.Sprintf("process %d of %s, which ran %d tasks, stood still (state T): %t", pid, victim.Name, busy, stood), goOn(pid)
	}}, nil
}

// cutWorker keeps back what a worker and the replicas send to each other.
func cutWorker(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, busy, err := pickWorker(ctx, a, r)
	if err != nil {
		return Struck{}, err
	}
	before := total(victim.Edges)
	setAll(victim.Edges, proxy.BlackHole)
	return Struck{Replicas: []string{victim.Name}, Heal: func(context.Context) (bool, string, error) {
		held := total(victim.Edges).Held - before.Held
		setAll(victim.Edges, proxy.Fault{})
		return held > 0, fmt.Sprintf("%d bytes between %s, which ran %d tasks, and the replicas were held", held, victim.Name, busy), nil
	}}, nil
}
