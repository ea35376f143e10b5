package zklock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// evicted renews a session, and checks whether that says that a key may be gone.
func evicted(t *testing.T, s *session, want bool, sample ...driver.Held) {
	t.Helper()
	if got, err := s.Renew(t.Context(), sample); err != nil || got != want {
		t.Errorf("renew: %t, %v; want %t", got, err, want)
	}
}

// A renewal is one request, however many keys are held, also with a sample.
func TestRequestsOfARenewal(t *testing.T) {
	t.Parallel()
	a, _, _, way := between(t, "renewals")
	var sample []driver.Held
	for i := range 10 {
		var keys []string
		for n := range 100 {
			keys = append(keys, fmt.Sprintf("k%d-%02d", i, n))
		}
		sample = append(sample, driver.Held{Key: keys[0], Token: lockstest.Acquire(t, a, "all", keys...)[0].Token})
	}
	sent := noted(way)
	evicted(t, a, false)
	if diff := cmp.Diff([]uint32{setData}, sent.take()); diff != "" {
		t.Errorf("requests of a renewal (-want +got):\n%s", diff)
	}
	evicted(t, a, false, sample[:3]...)
	if diff := cmp.Diff([]uint32{multi}, sent.take()); diff != "" {
		t.Errorf("requests of a renewal with a sample (-want +got):\n%s", diff)
	}
}

// A renewal finds keys of its sample that were deleted by hand, also if another holds them by now; and goes on.
func TestARenewalComparesItsSample(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]driver.Want{"alone": {Key: "k"}, "shared": {Key: "k", Shared: true}, "limit": {Key: "k", Limit: 3}} {
		for _, retaken := range []bool{false, true} {
			a, b, op, _ := between(t, fmt.Sprint("compared-", name, retaken))
			r, err := a.TryAcquire(t.Context(), "a", []driver.Want{w})
			if err != nil || r[0].Token == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			h, other := driver.Held{Key: "k", Token: r[0].Token}, driver.Held{Key: "other", Token: lockstest.Acquire(t, a, "o", "other")[0].Token}
			evicted(t, a, false, h, other)
			node := a.book.held[h].node
			if w == (driver.Want{Key: "k"}) {
				node = a.names.held("k")
			}
			if err := op.Delete(node, -1); err != nil {
				t.Fatal(err)
			}
			if retaken {
				if r, err := b.TryAcquire(t.Context(), "b", []driver.Want{w}); err != nil || r[0].Token == 0 {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			evicted(t, a, false, other)
			evicted(t, a, true, other, h)
			evicted(t, a, false, other)
			evicted(t, a, true, h, other)
		}
	}
}

// An eviction is said by the next renewal that is answered, once: also if answers were lost, or their callers had left.
func TestEvictionIsSaidOnce(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]driver.Want{"alone": {Key: "k"}, "shared": {Key: "k", Shared: true}} {
		a, b, op, way := between(t, "said-"+name)
		takes := func() driver.Held {
			t.Helper()
			r, err := a.TryAcquire(t.Context(), "a", []driver.Want{w})
			if err != nil || r[0].Token == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			return driver.Held{Key: w.Key, Token: r[0].Token}
		}
		evicts := func(h driver.Held) {
			t.Helper()
			if freed, err := b.Evict(t.Context(), h.Key, h.Token); err != nil || !freed {
				t.Fatalf("%t, %v", freed, err)
			}
		}
		evicted(t, a, false)
		evicts(takes())
		evicted(t, a, true)
		evicted(t, a, false)

		// The caller has left when the answer comes.
		evicts(takes())
		ctx, cancel := context.WithCancel(t.Context())
		on := make(chan struct{})
		way.before(setData, func() { cancel(); <-on })
		if _, err := a.Renew(ctx, nil); err == nil {
			t.Error("it was answered")
		}
		close(on)
		way.hold(nil)
		evicted(t, a, true)
		evicted(t, a, false)

		// The answer does not arrive.
		evicts(takes())
		way.set(true, true)
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := a.Renew(ctx, nil); err == nil {
			t.Error("it was answered")
		}
		cancel()
		way.set(false, false)
		said := false
		await.Until(t, "a renewal gets through", func() bool {
			got, err := a.Renew(t.Context(), nil)
			said = got
			return err == nil
		})
		if !said {
			t.Error("the eviction was lost with the answer")
		}
		evicted(t, a, false)

		// Its own node is gone, so whoever evicts cannot leave word.
		if err := op.Delete(a.names.session(a.ID()), -1); err != nil {
			t.Fatal(err)
		}
		h := takes()
		evicts(h)
		evicted(t, a, true)
		evicted(t, a, false)
		evicted(t, a, true, h) // a sample that is not held
	}
}

// A key that was deleted by hand is found in the sample.
func TestSampleFindsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	a, _, op, _ := between(t, "sample")
	gone, kept := lockstest.Grant(t, a, "gone"), lockstest.Grant(t, a, "kept")
	evicted(t, a, false, gone, kept)
	if err := op.Delete(a.names.held("gone"), -1); err != nil {
		t.Fatal(err)
	}
	evicted(t, a, false, kept)
	evicted(t, a, true, gone, kept)
	evicted(t, a, false, kept)
}
