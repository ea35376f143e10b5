package sim

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// claimMost is longer than a claim holds a pool's lock: 5 s for the store, and 2 s for the release.
const claimMost = 8 * time.Second

// judgeLocks: no replica keeps a pool's lock beyond its claim.
func (w *world) judgeLocks() {
	had := w.poolLocks()
	if len(had) == 0 {
		return
	}
	time.Sleep(claimMost)
	has := w.poolLocks()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, h := range had {
		if has[key].Token == h.Token {
			w.violate(h.Owner, "%s has had the lock %s since %v, and nothing to claim", h.Owner, key, h.Since.Format(time.TimeOnly))
		}
	}
}

// poolLocks are the pool locks that are held now.
func (w *world) poolLocks() map[string]locks.Info {
	held := map[string]locks.Info{}
	for _, h := range w.listLocks("sys/pool/") {
		if h.Token == 0 {
			continue // it waits
		}
		held[h.Key] = h
	}
	return held
}

// listLocks is what the lock service has below a prefix.
func (w *world) listLocks(prefix string) []locks.Info {
	ctx := context.Background()
	s, err := w.locks.Open(ctx, driver.Open{Namespace: "lockstep", Owner: "judge", TTL: time.Minute})
	if err != nil {
		panic(err) // it is up, and in this process
	}
	list, err := s.List(ctx, prefix, "", 100)
	if err != nil {
		panic(err)
	}
	if err := s.Close(ctx); err != nil {
		panic(err)
	}
	return list
}
