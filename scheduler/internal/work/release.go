package work

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// releaseCall bounds a call that releases leases. What it does not reach is freed in the background by the Locker.
const releaseCall = 2 * time.Second

// releases gives leases back, in batches, so that nothing else waits for the lock service.
//
//  1. wait for leases
//  2. release all that have come in
//  3. when ctx is done, release the rest, and what is held for attempts that have ended without an acknowledged result: the Locker may
//     be used on. What an attempt holds that did not stop stays held.
type releases struct {
	locker  JobLocks
	running func(claimKey) bool // an attempt of that claim has not ended

	mu      sync.Mutex
	held    map[claimKey][]heldLock // of tasks whose result is not acknowledged
	pending []*locks.Lease
	ready   chan struct{}
}

func newReleases(l JobLocks, running func(claimKey) bool) *releases {
	return &releases{locker: l, running: running, held: map[claimKey][]heldLock{}, ready: wake.Signal()}
}

// keep keeps the leases of a claimed task until its result is acknowledged.
func (r *releases) keep(t *jobs.Task, held []heldLock) {
	if len(held) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[keyOf(t)] = held
}

// recorded gives the leases of a task back: its result is acknowledged.
func (r *releases) recorded(t *jobs.Task) {
	r.mu.Lock()
	held := r.held[keyOf(t)]
	delete(r.held, keyOf(t))
	r.mu.Unlock()
	r.add(held)
}

// add gives leases back.
func (r *releases) add(held []heldLock) {
	if len(held) == 0 {
		return
	}
	r.mu.Lock()
	for _, l := range held {
		r.pending = append(r.pending, l.lease)
	}
	r.mu.Unlock()
	wake.Send(r.ready)
}

// giveUp gives back what is held for attempts that have ended.
func (r *releases) giveUp() {
	var ended []heldLock
	r.mu.Lock()
	for k, held := range r.held {
		if !r.running(k) {
			delete(r.held, k)
			ended = append(ended, held...)
		}
	}
	r.mu.Unlock()
	r.add(ended)
}

func (r *releases) run(ctx context.Context) {
	for open := true; open; {
		select {
		case <-ctx.Done():
			open = false
			r.giveUp()
		case <-r.ready:
		}
		r.mu.Lock()
		leases := r.pending
		r.pending = nil
		r.mu.Unlock()
		if len(leases) == 0 {
			continue
		}
		calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseCall)
		_ = r.locker.Release(calling, leases...) // a lost lease ends by itself
		cancel()
	}
}
