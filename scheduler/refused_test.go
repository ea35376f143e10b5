package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// refusing is a store that answers its replica, and takes nothing while full is set.
type refusing struct {
	ledger.Store
	full    atomic.Bool
	refused atomic.Int64 // heartbeats
}

func (r *refusing) Beat(ctx context.Context, session string) (time.Time, error) {
	if r.full.Load() {
		r.refused.Add(1)
		return time.Time{}, errCut
	}
	return r.Store.Beat(ctx, session)
}

func (r *refusing) Expire(ctx context.Context, session string, beat int64) (bool, error) {
	if r.full.Load() {
		return false, errCut
	}
	return r.Store.Expire(ctx, session, beat)
}

var _ ledger.Store = &refusing{}

// The first replica whose heartbeat is acknowledged, when the disk of the store has room again, does not expire the others:
// all it saw of them meanwhile is that the store took nothing.
func TestAStoreThatTakesNothingExpiresNoSession(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	db := sqlite(t)
	first, second := &refusing{Store: db.open(t).Sides().Replica}, &refusing{Store: db.open(t).Sides().Replica}
	a := start(t, first, nil, pool(&starts{}, nil), scheduler.Options{ID: "a", SessionTTL: ttl})
	b := start(t, second, nil, pool(&starts{}, nil), scheduler.Options{ID: "b", SessionTTL: ttl})
	st := db.open(t)
	await.Until(t, "both live", func() bool { return len(peers(t, st)) == 2 && a.Vitals().Ready && b.Vitals().Ready })
	before := sessions(peers(t, st))
	first.full.Store(true)
	second.full.Store(true)
	time.Sleep(3 * ttl / 2)
	if first.refused.Load() == 0 || second.refused.Load() == 0 || a.Health()[0].Ready || b.Health()[0].Ready {
		t.Fatal("the store was not full")
	}
	first.full.Store(false)
	await.Until(t, "the first is back", func() bool { return a.Health()[0].Ready })
	time.Sleep(ttl / 4) // it looks at the others once at least
	second.full.Store(false)
	await.Until(t, "the second is back", func() bool { return b.Health()[0].Ready })
	if after := sessions(peers(t, st)); after["a"] != before["a"] || after["b"] != before["b"] || a.Vitals().PeersExpired+b.Vitals().PeersExpired > 0 {
		t.Errorf("sessions %v before and %v after; %d and %d expired", before, after, a.Vitals().PeersExpired, b.Vitals().PeersExpired)
	}
}

// sessions are the live ones, by replica.
func sessions(all []ledger.Peer) map[string]string {
	by := map[string]string{}
	for _, p := range all {
		if !p.Dead {
			by[p.Replica] = p.Session
		}
	}
	return by
}
