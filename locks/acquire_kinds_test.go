package locks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// Holds of one key end one by one, in any order.
func TestHoldsOfOneKey(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
		synctest.Test(t, func(t *testing.T) {
			service := memlock.New()
			m := &told{n: map[string]int{}}
			l := start(t, service, locks.Options{Observer: m})
			var leases []*locks.Lease
			for range order {
				leases = append(leases, acquire(t, l, locks.Request{Key: "user/a", Mode: locks.Shared}))
			}
			for _, i := range order[:2] {
				release(t, leases[i])
				time.Sleep(10 * time.Second) // what is held is checked meanwhile
			}
			last := leases[order[2]]
			if err := last.Check(); err != nil {
				t.Error(err)
			}
			service.Expire(l.State().Session)
			endsAfter(t, last, locks.ErrLost, 2*time.Second, 2*time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			for what, n := range m.n {
				if strings.Contains(what, "forced") || strings.HasSuffix(what, " lost") && n != 1 {
					t.Errorf("%d %s, want the last one lost alone", n, what)
				}
			}
		})
	}
}

// A place is not passed on to a waiter of another kind.
func TestAcquireAsksAnewForAnotherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, service := pair(t)
		third := start(t, service, locks.Options{})
		first := take(t, other, "user/a")
		ctx, cancel := context.WithCancel(t.Context())
		var s, gone turns
		gone.wait(ctx, "gone", l, locks.Request{Key: "user/a", Mode: locks.Shared}, 0)
		s.wait(t.Context(), "l", l, key, time.Second)
		s.wait(t.Context(), "third", third, key, time.Second)
		cancel()
		synctest.Wait()
		release(t, first)
		s.want(t, "third", "l")
	})
}

// Readers share, a writer is not overtaken, and a limit is one.
func TestAcquireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		shared := locks.Request{Key: "user/a", Mode: locks.Shared}
		mine, second, theirs := acquire(t, l, shared), acquire(t, l, shared), acquire(t, other, shared)
		if mine.Token() == second.Token() || mine.Token() == theirs.Token() {
			t.Error("two grants have one token")
		}
		var s turns
		s.wait(t.Context(), "writer", l, key, time.Second)
		if a := try(t, other, shared); a.Lease != nil {
			t.Error("a reader came before a writer that waits")
		}
		if a := try(t, l, shared); a.Lease != nil {
			t.Error("a reader of the same Locker came before a writer that waits")
		}
		s.wait(t.Context(), "reader", l, shared, time.Second)
		s.wait(t.Context(), "another", l, shared, time.Second)
		began := time.Now()
		release(t, mine, second, theirs)
		s.all.Wait()
		if took := time.Since(began); s.served[0] != "writer" || len(s.served) != 3 || took != 2*time.Second {
			t.Errorf("served %v in %v, want the writer, then both readers together", s.served, took)
		}

		s = turns{}
		began = time.Now()
		for range 10 {
			s.wait(t.Context(), "three", l, locks.Request{Key: "user/b", Limit: 3}, time.Second)
			s.wait(t.Context(), "three", other, locks.Request{Key: "user/b", Limit: 3}, time.Second)
		}
		s.all.Wait()
		if took := time.Since(began); took != 7*time.Second || len(s.served) != 20 {
			t.Errorf("%d turns of 3 at once in %v, want 20 in 7 s: %v", len(s.served), took, s.errs)
		}
	})
}

// A request joins the hold of its Owner, also while it waits, and only one of its kind.
func TestAcquireJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		theirs := take(t, other, "user/a")
		var first, second, stranger *locks.Lease
		var all sync.WaitGroup
		owned := locks.Request{Key: "user/a", Owner: "job"}
		all.Go(func() { first = acquire(t, l, owned) })
		synctest.Wait()
		all.Go(func() { stranger = acquire(t, l, key) })
		synctest.Wait()
		all.Go(func() { second = acquire(t, l, owned) })
		synctest.Wait()
		release(t, theirs)
		synctest.Wait()
		if first == nil || second == nil || first.Token() != second.Token() || stranger != nil {
			t.Fatalf("%v, %v, %v: want one hold for the two of the same owner", first, second, stranger)
		}
		before := f.count("queue")
		third := acquire(t, l, owned)
		if third.Token() != first.Token() || f.count("queue") != before {
			t.Error("it did not join")
		}
		if a := try(t, l, locks.Request{Key: "user/a", Owner: "job", Mode: locks.Shared}); a.Lease != nil {
			t.Error("a shared request joined an exclusive hold")
		}
		_, err := l.Acquire(t.Context(), locks.Request{Key: "user/a", Owner: "job", Mode: locks.Shared})
		if want := "locks: acquire: key user/a: job holds it with another mode or limit, which a hold keeps: release it first"; said(err) != want {
			t.Errorf("%q, want %q", said(err), want)
		}
		release(t, first, second)
		synctest.Wait()
		if stranger != nil {
			t.Error("the key was released while a lease shared it")
		}
		release(t, third)
		all.Wait()
	})
}

// A hold has one limit: a request of its Owner with another one does not join.
func TestAnotherLimitDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, _ := pair(t)
		first := acquire(t, l, locks.Request{Key: "user/a", Owner: "job", Limit: 3})
		if a := try(t, l, locks.Request{Key: "user/a", Owner: "job", Limit: 2}); a.Lease != nil || !errors.Is(a.Err, locks.ErrBusy) {
			t.Errorf("%+v: want it busy", a)
		}
		_, err := l.Acquire(t.Context(), locks.Request{Key: "user/a", Owner: "job", Limit: 2})
		if want := "locks: acquire: key user/a: job holds it with another mode or limit, which a hold keeps: release it first"; said(err) != want {
			t.Errorf("%q, want %q", said(err), want)
		}
		again := acquire(t, l, locks.Request{Key: "user/a", Owner: "job", Limit: 3})
		if again.Token() != first.Token() {
			t.Errorf("%v, want it to share the hold %v", again, first)
		}
		release(t, first, again)
	})
}

// A request that waits joins the hold of a try of its Owner, whose answer came later.
func TestAcquireJoinsATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		owned := locks.Request{Key: "user/a", Owner: "job"}
		f.on(slowly(f, 1))
		var tried, waited *locks.Lease
		var all sync.WaitGroup
		all.Go(func() { tried = try(t, l, owned).Lease })
		synctest.Wait()
		all.Go(func() { waited = acquire(t, l, owned) })
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if tried == nil || waited == nil || tried.Token() != waited.Token() {
			t.Fatalf("%v, %v: want one hold", tried, waited)
		}
		all.Wait()
		release(t, tried, waited)
		time.Sleep(time.Second)
		release(t, take(t, other, "user/a")) // no place is left
	})
}
