package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// 100 Lockers with a waiter each, each of which comes once the one before is seen queued, are served in that order; and a
// Locker with 50 waiters takes turns with a Locker that has one. Order is that of the tokens, which grow with each grant. Where
// the backend has no order (Caps.FIFO) all are served, and nothing else is demanded.
func TestFair(t *testing.T) {
	each(t, []kind{exclusive, shared, semaphore}, func(t *testing.T, s site) {
		if !s.caps.FIFO {
			t.Log("no order is demanded: the backend has none")
			served(t, s)
			shown.held(t, s, "TestFair", "all are served, in no order")
			return
		}
		inOrder(t, s)
		if s.kind.name != shared.name {
			inTurns(t, s)
		}
		shown.held(t, s, "TestFair", "in order of arrival")
	})
}

// wish is what a waiter of the kind asks for. Readers and writers alternate.
func wish(k kind, i int) locks.Request {
	switch {
	case k.name == semaphore.name:
		return locks.Request{Key: "fair", Limit: limit}
	case k.name == shared.name && i%2 == 1:
		return locks.Request{Key: "fair", Mode: locks.Shared}
	}
	return locks.Request{Key: "fair"}
}

// line is what was granted, in any order.
type line struct {
	mu     sync.Mutex
	grants []grant
}

type grant struct {
	who   int
	token locks.Token
}

func (l *line) add(who int, token locks.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants = append(l.grants, grant{who, token})
}

// order is who was granted, in the order of the grants.
func (l *line) order() (who []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.grants, func(a, b grant) int { return cmp.Compare(a.token, b.token) })
	for _, g := range l.grants {
		who = append(who, g.who)
	}
	return who
}

// see returns once the places that wait for the key are as is says.
func see(t *testing.T, l *locks.Locker, is func(places []locks.Info) bool) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var places []locks.Info
		for info, err := range l.Inspect(t.Context(), "user/fair") {
			if err != nil {
				return err
			}
			if info.Place > 0 {
				places = append(places, info)
			}
		}
		if is(places) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within a minute: these wait: %+v", places)
		}
	}
}

// full acquires what the kind has of the key, so that all others wait: alone, up to the limit, or as a reader, since the first
// waiter is a writer then, and the readers behind it must not overtake it.
func full(t *testing.T, s site, l *locks.Locker) []*locks.Lease {
	t.Helper()
	n := 1
	if s.kind.name == semaphore.name {
		n = limit
	}
	var leases []*locks.Lease
	for range n {
		more, err := l.Acquire(t.Context(), wish(s.kind, 1))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, more...)
	}
	return leases
}

func served(t *testing.T, s site) {
	t.Helper()
	ls := s.lockers(t, 20)
	held := full(t, s, ls[0])
	go func() { _ = ls[0].Release(t.Context(), held...) }()
	var n line
	crowd(t, len(ls), func(i int) error {
		leases, err := ls[i].Acquire(t.Context(), wish(s.kind, i))
		if err != nil {
			return err
		}
		n.add(i, leases[0].Token())
		return ls[i].Release(t.Context(), leases...)
	})
	if got := n.order(); len(got) != len(ls) {
		t.Errorf("served: %v", got)
	}
}

func inOrder(t *testing.T, s site) {
	t.Helper()
	waiters := 100
	if s.kind.name != exclusive.name {
		waiters = 30 // to see who waits is what takes long
	}
	ls := s.lockers(t, waiters)
	first := s.locker(t, "first")
	held := full(t, s, first)
	var n line
	var all sync.WaitGroup
	failed := make(chan error, waiters)
	for i := range waiters {
		all.Go(func() {
			leases, err := ls[i].Acquire(t.Context(), wish(s.kind, i))
			if err != nil {
				failed <- err
				return
			}
			n.add(i, leases[0].Token())
			if err := ls[i].Release(t.Context(), leases...); err != nil {
				failed <- err
			}
		})
		if err := see(t, first, func(places []locks.Info) bool { return len(places) == i+1 || len(failed) > 0 }); err != nil {
			t.Fatalf("waiter %d is not queued: %v", i, err)
		}
		if len(failed) > 0 {
			t.Fatal(<-failed)
		}
	}
	if err := first.Release(t.Context(), held...); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if got := n.order(); len(got) != waiters || !slices.IsSorted(got) {
		t.Errorf("served in the order %v", got)
	}
}

// inTurns has a Locker with 50 waiters and one with a single waiter, which comes again after its turn. A turn ends once the other
// Locker is seen queued, and so that each has one place.
func inTurns(t *testing.T, s site) {
	t.Helper()
	turns := 50
	if s.kind.name != exclusive.name {
		turns = 15
	}
	owners := []string{"crowded", "lonely"}
	ls := []*locks.Locker{s.locker(t, owners[0]), s.locker(t, owners[1])}
	first := s.locker(t, "first")
	held := full(t, s, first)
	var n line
	var left [2]atomic.Int64
	turn := func(who int) error {
		leases, err := ls[who].Acquire(t.Context(), wish(s.kind, 0))
		if err != nil {
			return err
		}
		n.add(who, leases[0].Token())
		left[who].Add(-1)
		if left[1-who].Load() > 0 {
			err = see(t, first, func(places []locks.Info) bool {
				return slices.ContainsFunc(places, func(p locks.Info) bool { return p.Owner == owners[1-who] })
			})
		}
		return errors.Join(err, ls[who].Release(t.Context(), leases...))
	}
	left[0].Store(int64(turns))
	left[1].Store(int64(turns))
	done := make(chan struct{})
	go func() {
		defer close(done)
		crowd(t, turns+1, func(i int) error {
			if i < turns {
				return turn(0)
			}
			for range turns {
				if err := turn(1); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	err := see(t, first, func(places []locks.Info) bool { return len(places) == 2 })
	if err := errors.Join(err, first.Release(t.Context(), held[0])); err != nil { // of a semaphore the other permits stay taken
		t.Error(err)
	}
	<-done
	if err := first.Release(t.Context(), held...); err != nil {
		t.Error(err)
	}
	most := 1
	if s.kind.name == semaphore.name {
		most = 2 // one that holds does not keep the next waiter of its Locker from its place, which may be before that of the other
	}
	got := n.order()
	together, had := 0, [2]int{}
	for i, who := range got {
		if had[0] == turns || had[1] == turns { // the other is alone
			break
		}
		if i == 0 || who != got[i-1] {
			together = 0
		}
		together++
		had[who]++
		if together > most {
			t.Fatalf("Locker %d has %d turns together: %v", who, together, got)
		}
	}
	if len(got) != 2*turns {
		t.Errorf("%d turns, want %d", len(got), 2*turns)
	}
}
