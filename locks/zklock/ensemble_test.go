package zklock

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Three servers are one service: it outlives its leader, grants nothing while it has no majority,
// and at no time do two hold one key.
func TestEnsembleLosesServers(t *testing.T) {
	t.Parallel()
	e := servers.NewEnsemble(t)
	locker := func(owner string) *locks.Locker {
		l, err := locks.New(New(e.Addrs(), Options{}), locks.Options{TTL: 8 * time.Second, Namespace: "ensemble", Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			_ = l.Close(ctx)
		})
		return l
	}
	try := func(l *locks.Locker, key string) *locks.Lease {
		got, err := l.TryAcquire(t.Context(), locks.Request{Key: key})
		if err != nil {
			return nil
		}
		return got[0].Lease
	}
	a, b := locker("a"), locker("b")
	var held *locks.Lease
	await.Until(t, "the key is granted", func() bool { held = try(a, "k"); return held != nil })
	// whole checks while the service comes back: k is not evicted.
	whole := func(fresh string) {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not granted", fresh)
			}
			if lease := try(b, "k"); lease != nil {
				if held.Check() == nil {
					t.Fatal("two hold one key")
				}
				if lease.Token() <= held.Token() {
					t.Errorf("token %d after %d", lease.Token(), held.Token())
				}
				held, a, b = lease, b, a
			}
			if try(b, fresh) != nil {
				return
			}
		}
	}

	leader := e.Leader()
	leader.Kill()
	whole("after-the-leader")
	e.Start(leader)
	whole("all-three")

	// Without a majority.
	first, second := e.Leader(), e.Servers[0]
	if second == first {
		second = e.Servers[1]
	}
	first.Kill()
	second.Kill()
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(20 * time.Millisecond) {
		if lease := try(b, "alone"); lease != nil {
			t.Fatalf("granted by one of three, with token %d", lease.Token())
		}
	}
	e.Start(first, second)
	whole("a-majority-again")
}
