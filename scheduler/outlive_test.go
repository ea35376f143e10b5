package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// outsider is a store in which another process has the id of each replica, and always is faster.
type outsider struct {
	ledger.Store
	mu      sync.Mutex
	expired []string
}

func (o *outsider) Join(context.Context, ledger.Member) (string, error) {
	return "", ledger.ErrReplicaLive
}

func (o *outsider) Expire(ctx context.Context, session string, beat int64) (bool, error) {
	dead, err := o.Store.Expire(ctx, session, beat)
	if dead {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.expired = append(o.expired, session)
	}
	return dead, err
}

func (o *outsider) dead() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.expired
}

// Two new replicas wait for the same expired session. The slower one must not expire the faster one
// because it has waited long for the first.
func TestEachSessionInTheWayIsGivenItsTime(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	db := sqlite(t)
	st := db.open(t)
	member := storetest.Member("a")
	member.TTL = ttl
	join := func() string {
		id, err := st.Sides().Replica.Join(t.Context(), member)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Sides().Replica.Beat(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := join() // and never sends another heartbeat
	in := &outsider{Store: db.open(t).Sides().Replica}
	s, err := scheduler.New(ledger.Sides{Replica: in}, nil, jobs.Set{}, scheduler.Options{ID: "a", SessionTTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	await.Until(t, "the first is declared dead", func() bool { return len(in.dead()) == 1 })
	second := join()
	beats := time.NewTicker(ttl / 3)
	defer beats.Stop()
	for {
		select {
		case <-beats.C:
			if _, err := st.Sides().Replica.Beat(t.Context(), second); err != nil {
				t.Fatalf("the second, which beats: %v", err)
			}
			continue
		case err := <-done:
			if !errors.Is(err, ledger.ErrReplicaLive) {
				t.Errorf("it gave up with %v", err)
			}
		}
		break
	}
	if dead := in.dead(); len(dead) != 1 || dead[0] != first {
		t.Errorf("it expired %v; the first is %s, the second %s", dead, first, second)
	}
}
