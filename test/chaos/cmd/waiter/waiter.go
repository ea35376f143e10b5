package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	ask     = 40 * time.Millisecond // between two looks at an own lease
	between = 60 * time.Millisecond // after a turn
	longest = 12 * time.Second      // that a waiter with a deadline waits
)

// firstKey is one that is sometimes held for longer than a session lasts without a renewal.
const firstKey = "user/turn-0"

// kind is a key, and how it is asked for.
type kind struct {
	request  locks.Request
	together history.Together
}

// kinds are what the service has: keys that are always held alone, one that is read and written, and one with a limit.
func kinds(c locks.Caps) []kind {
	all := []kind{
		{locks.Request{Key: firstKey}, 1},
		{locks.Request{Key: "user/turn-1"}, 1},
	}
	if c.Shared {
		reader := kind{locks.Request{Key: "user/read", Mode: locks.Shared}, 0}
		all = append(all, reader, reader, kind{locks.Request{Key: "user/read"}, 1})
	}
	if c.Limit {
		all = append(all, kind{locks.Request{Key: "user/permits", Limit: 2}, 2})
	}
	return all
}

// waiter waits for one key after the other.
type waiter struct {
	name   string
	beside string
	locker *locks.Locker
	ttl    time.Duration
	kinds  []kind
	waits  *history.Log[history.Wait]
	holds  *history.Log[history.Hold]

	mu     sync.Mutex
	queued time.Time // when the present wait was acknowledged
	moved  bool      // its session has ended
}

// Asked is told of the answers of the service: only the present wait asks.
func (w *waiter) Asked(_ string, a locks.Asked) {
	at := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Queued > 0 && w.queued.IsZero() {
		w.queued = at
	}
}

// Renewed implements locks.Observer.
func (w *waiter) Renewed(string, time.Duration, error) {}

// Waiting implements locks.Observer, as the next three do.
func (w *waiter) Waiting(string)                     {}
func (w *waiter) Waited(string, time.Duration, bool) {}
func (w *waiter) Held(string)                        {}
func (w *waiter) Freed(string, time.Duration)        {}

// Lost says that a place may have been lost with its session.
func (w *waiter) Lost(string, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = true
}

// run waits for keys until ctx ends:
//
//  1. wait for one, as long as a deadline allows
//  2. hold it for a moment, and release it
func (w *waiter) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.turn(ctx, w.kinds[rand.N(len(w.kinds))]); err != nil {
			return err
		}
		pause(ctx, rand.N(2*between))
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = w.locker.Close(closing) // a service that is away lets go by itself
	return nil
}

// turn is one wait, and what follows it.
func (w *waiter) turn(ctx context.Context, k kind) error {
	w.mu.Lock()
	w.queued, w.moved = time.Time{}, false
	w.mu.Unlock()
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if rand.N(3) == 0 {
		waiting, cancel = context.WithTimeout(ctx, rand.N(longest))
	}
	defer cancel()
	asked := time.Now()
	leases, err := w.locker.Acquire(waiting, k.request)
	line := history.Wait{Waiter: w.name, Beside: w.beside, Key: k.request.Key, Kind: k.together, Asked: asked, Ended: time.Now()}
	w.mu.Lock()
	line.Queued, line.Moved = w.queued, w.moved
	w.mu.Unlock()
	if err != nil {
		if waiting.Err() == nil { // the service was never reached
			pause(ctx, time.Second)
		}
		return w.waits.Add(line)
	}
	line.Token = int64(leases[0].Token())
	err = w.hold(ctx, leases[0], k)
	_ = leases[0].Release(context.WithoutCancel(ctx)) // a lost lease is free, and the rest is swept
	if err != nil {
		return err
	}
	return w.waits.Add(line)
}

// hold has a key for a while, or for as long as it may be trusted.
func (w *waiter) hold(ctx context.Context, lease *locks.Lease, k kind) error {
	until := time.Now().Add(20*time.Millisecond + rand.N(100*time.Millisecond))
	if k.request.Key == firstKey && rand.N(10) == 0 { // so that places are given up, and their sessions end, behind a holder that lives
		until = until.Add(2 * w.ttl)
	}
	for ctx.Err() == nil && time.Now().Before(until) {
		at := time.Now() // before the check: what is trusted later was trusted then
		if lease.Check() != nil {
			break
		}
		line := history.Hold{At: at, Holder: w.beside, Waiter: w.name, Key: lease.Key(), Kind: &k.together, Token: int64(lease.Token())}
		if err := w.holds.Add(line); err != nil {
			return err
		}
		pause(ctx, ask)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
