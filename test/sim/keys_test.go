package sim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// crowd is a world in which tasks wait for one lock while one of three replicas is killed.
func crowd(seed uint64) *plan {
	p := small(seed, nil)
	p.Replicas, p.TTL, p.NoLocks = 3, 2*time.Second, seed%2 == 0
	p.Pools["p0"] = jobs.Pool{Workers: 4, OnLost: jobs.LostRetries, Timeout: 20 * time.Second, Locks: []jobs.Lock{{Key: jobsKey}}}
	d := newDraw(seed, "crowd")
	p.Steps = []step{
		{At: 2 * time.Second, Kind: enqueues, Name: "p0", N: 12},
		{At: d.between(3*time.Second, 9*time.Second), Kind: kills, Replica: d.IntN(3), For: 15 * time.Second},
	}
	return p
}

// What a dead replica had queued for its lock another one queues, soon after the session has ended. A store that keeps the places of
// dead sessions is found.
func TestNobodyWaitsBehindADeadReplica(t *testing.T) {
	t.Parallel()
	abandoned, found := 0, 0
	for seed := range uint64(30) {
		w := simulate(t, crowd(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		abandoned += w.counted["waits abandoned"]
		w = simulate(t, crowd(seed+1), func(s ledger.Store) ledger.Store { return &staysQueued{Store: s, queued: map[string]bool{}} })
		if slices.ContainsFunc(w.violations, func(v violation) bool { return strings.Contains(v.text, "waits behind a session") }) {
			found++
		}
	}
	if abandoned == 0 || found == 0 {
		t.Errorf("%d waits were abandoned, the bug was found %d times", abandoned, found)
	}
}

// staysQueued is a store in which the place of a dead session is not free again.
type staysQueued struct {
	ledger.Store
	mu     sync.Mutex
	queued map[string]bool // by other sessions, once
}

func (s *staysQueued) FirstWaits(ctx context.Context, session string, skip []string, limit int) ([]ledger.Wait, time.Time, error) {
	first, ends, err := s.Store.FirstWaits(ctx, session, skip, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range first {
		s.queued[w.TaskID] = s.queued[w.TaskID] || w.Queued
		first[i].Queued = s.queued[w.TaskID]
	}
	return first, ends, err
}
