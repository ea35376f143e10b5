package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	look = 100 * time.Millisecond // between two tries for what others have
	ask  = 40 * time.Millisecond  // between two looks at an own lease

	holders  = 3
	courtesy = time.Second // after the first grant it wants the others' keys as well: so each has some at first
)

// The holder of some keys changes all the time, others are held for seconds.
const (
	short = "user/short-"
	long  = "user/long-"
)

func keys() (all []string) {
	for i := range 6 {
		all = append(all, fmt.Sprint(long, i))
	}
	return append(all, short+"0", short+"1")
}

// holder tries for all keys that it has not, in one call, and works under each that it gets.
type holder struct {
	id     string
	locker *locks.Locker
	log    *history.Log[history.Hold]

	mu      sync.Mutex
	free    map[string]time.Time // keys that it has not, and from when on it wants them
	foreign []string             // to be wanted once it has got something
	err     error
}

func (h *holder) run(ctx context.Context) error {
	var working sync.WaitGroup
	for ctx.Err() == nil {
		wanted := h.wanted()
		if len(wanted) > 0 {
			// An unavailable service is asked again: nothing is held meanwhile.
			attempts, _ := h.locker.TryAcquire(ctx, wanted...)
			for _, a := range attempts {
				if a.Lease == nil {
					continue
				}
				h.got(a.Lease.Key())
				working.Go(func() { h.hold(ctx, a.Lease) })
			}
		}
		pause(ctx, look/2+rand.N(look))
	}
	working.Wait()
	return h.err
}

func (h *holder) got(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.free, key)
	for _, other := range h.foreign {
		h.free[other] = time.Now().Add(courtesy)
	}
	h.foreign = nil
}

func (h *holder) wanted() (all []locks.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, from := range h.free {
		if time.Now().After(from) {
			all = append(all, locks.Request{Key: key})
		}
	}
	return all
}

// hold has a key for a while, or for as long as it may be trusted.
func (h *holder) hold(ctx context.Context, lease *locks.Lease) {
	until := time.Now().Add(100*time.Millisecond + rand.N(300*time.Millisecond))
	if strings.HasPrefix(lease.Key(), long) {
		until = time.Now().Add(6*time.Second + rand.N(12*time.Second))
	}
	var err error
	for ctx.Err() == nil && time.Now().Before(until) && err == nil {
		at := time.Now() // before the check: what is trusted later was trusted then
		if lease.Check() != nil {
			break
		}
		err = h.log.Add(history.Hold{At: at, Holder: h.id, Key: lease.Key(), Token: int64(lease.Token())})
		pause(ctx, ask)
	}
	_ = lease.Release(context.WithoutCancel(ctx)) // a lost lease is free, and the rest is swept
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && h.err == nil {
		h.err = err
	}
	h.free[lease.Key()] = time.Now().Add(rand.N(2 * look))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
