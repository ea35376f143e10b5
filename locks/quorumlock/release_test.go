package quorumlock

import (
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A minority that has voted gives the votes back when no majority can be reached, and nobody waits for them.
func TestAMinorityIsReleased(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a, b := wire(t, group, quick), wire(t, group, quick)
	s, other := open(t, a), open(t, b)
	a.reaches(0, 1)
	await.Until(t, "it is known that nothing can be sent to a majority", func() bool { // after the first time it may have been
		_, err := s.TryAcquire(t.Context(), "id", lockstest.Wants("a"))
		return errors.Is(err, driver.ErrUnreachable)
	})
	await.Until(t, "the votes are given back", func() bool { return on(t, group[0], "a")+on(t, group[1], "a") == 0 })
	take(t, other, "a")
}

// A release or an eviction that has reached a minority may have done its work there: its outcome is unknown, and the key counts as
// released.
func TestAMinorityMayHaveFreedIt(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a := wire(t, group, quick)
	s := open(t, a)
	held := take(t, s, "a")
	a.reaches(0, 1)
	outcomes := func() []error {
		_, evicting := s.Evict(t.Context(), "a", held.Token)
		return []error{evicting, s.Release(t.Context(), []driver.Held{held}), s.Abandon(t.Context(), "id", []string{"a"})}
	}
	outcomes() // from now on it is known that three servers cannot be reached
	for i, err := range outcomes()[:2] {
		if err == nil || errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s: %v, want an outcome that is unknown", []string{"evict", "release"}[i], err)
		}
	}
	if n := on(t, group[0], "a") + on(t, group[1], "a"); n != 0 {
		t.Errorf("it is on %d of the servers that were reached", n)
	}
	a.reaches(0, 1, 2, 3, 4)
	renew(t, s)
	lockstest.Holds(t, s, held, false)
	free(t, s, held)
	take(t, open(t, wire(t, group, quick)), "a")
}

// An eviction that has freed a key on one server, and cannot reach the others then, has an unknown outcome.
func TestEvictedByAMinority(t *testing.T) {
	t.Parallel()
	a := wire(t, start(t, 3), quick)
	s := open(t, a)
	held := take(t, s, "a")
	a.reaches()
	for _, n := range a.nodes {
		n.suspect.Store(true)
	}
	if _, err := s.evict(t.Context(), mask(0).with(1).with(2), "a", held.Token, s.id+" 1"); err == nil || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, want an outcome that is unknown", err)
	}
	_, _ = s.evict(t.Context(), s.everywhere(), "a", held.Token, "") // it may still be sent on a connection that is cut just then
	if _, err := s.evict(t.Context(), s.everywhere(), "a", held.Token, ""); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable: nothing was sent", err)
	}
}

// What was evicted on a majority is gone, and is not brought back by the next renewal, though the holder knows of a server that
// lacked it.
func TestEvictedByAMajority(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a, b := wire(t, group, quick), wire(t, group, quick)
	holder, other := open(t, a), open(t, b)
	a.reaches(1, 2, 3, 4)
	held := within(t, holder, "a")
	a.reaches(0, 1, 2, 3, 4)
	b.reaches(0, 1, 2)
	if ok, err := other.Evict(t.Context(), "a", held.Token); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if evicted, err := holder.Renew(t.Context(), nil); err != nil || !evicted {
		t.Errorf("renew: %t, %v, want it to say so", evicted, err)
	}
	lockstest.Holds(t, holder, held, false)
	renew(t, holder)
	for i, srv := range group {
		if n := on(t, srv, "a"); n != 0 {
			t.Errorf("server %d has it", i)
		}
	}
	if evicted, err := holder.Renew(t.Context(), nil); err != nil || evicted {
		t.Errorf("renew: %t, %v, want it to be over", evicted, err)
	}
}
