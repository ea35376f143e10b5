package scenarios

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Nobody frees another's lock: not with its lease, not with a lease released or lost before, not with the token of a former
// holder, not by a request to the server with the holder's own token.
func TestForeignRelease(t *testing.T) {
	each(t, kinds, func(t *testing.T, s site) {
		ls := s.lockers(t, 3)
		a, b, other := ls[0], ls[1], ls[2]
		requests := map[string][]locks.Request{
			exclusive.name: {{Key: "k"}},
			shared.name:    {{Key: "k", Mode: locks.Shared}},
			semaphore.name: {{Key: "k", Limit: limit}},
			reentrant.name: {{Key: "k", Owner: "me"}},
			several.name:   {{Key: "k"}, {Key: "l"}},
		}[s.kind.name]
		acquire := func(l *locks.Locker) []*locks.Lease {
			t.Helper()
			leases, err := l.Acquire(t.Context(), requests...)
			if err != nil {
				t.Fatal(err)
			}
			return leases
		}
		holds := func(what string, leases []*locks.Lease) {
			t.Helper()
			for _, lease := range leases {
				got, err := other.TryAcquire(t.Context(), locks.Request{Key: lease.Key()})
				if err != nil || !errors.Is(got[0].Err, locks.ErrBusy) {
					t.Fatalf("after %s %s is not held: %+v, %v", what, lease.Key(), got, err)
				}
				if err := lease.Check(); err != nil {
					t.Fatalf("after %s: %v", what, err)
				}
			}
		}

		first := acquire(a)
		if err := b.Release(t.Context(), first...); err == nil {
			t.Error("another Locker releases a lease")
		}
		holds("a release by another Locker", first)
		if s.kind.name == reentrant.name {
			inner := acquire(a)
			if err := a.Release(t.Context(), inner...); err != nil {
				t.Error(err)
			}
			holds("the release of an inner lease", first)
		}
		if err := a.Release(t.Context(), first...); err != nil {
			t.Fatal(err)
		}

		second := acquire(b)
		if err := a.Release(t.Context(), first...); err != nil {
			t.Errorf("a second release: %v", err)
		}
		holds("a second release of the lease before", second)
		if freed, err := a.ForceRelease(t.Context(), first[0].Key(), first[0].Token()); freed || err != nil {
			t.Errorf("released by force under the token of a former holder: %v, %v", freed, err)
		}
		holds("a release by force under a former token", second)

		for _, lease := range second {
			if freed, err := a.ForceRelease(t.Context(), lease.Key(), lease.Token()); !freed || err != nil {
				t.Fatalf("released by force: %v, %v", freed, err)
			}
		}
		third := acquire(a)
		if err := b.Release(t.Context(), second...); err != nil && !errors.Is(err, locks.ErrLost) {
			t.Errorf("the release of what is lost: %v", err)
		}
		holds("the release of a lost lease", third)

		d, closes, err := s.connect(s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer closes()
		session, err := d.Open(t.Context(), driver.Open{Namespace: s.namespace, TTL: ttl, Owner: rand.Text()})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close(t.Context())
		for _, lease := range third {
			if err := session.Release(t.Context(), []driver.Held{{Key: lease.Key(), Token: lease.Token()}}); err != nil {
				t.Errorf("release of what another session holds: %v", err)
			}
		}
		holds("a request to the server with its own token", third)
		shown.held(t, s, "TestForeignRelease", "")
	})
}
