package lockstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// A server that lost its state, or was down: these run alone.
var restart = []testCase{
	{"restart/tokens grow", func(t *testing.T, s *suite) {
		ns := namespace()
		c := s.kept(t, s.client(t), ns)
		held := s.take(t, c, "user/a")
		if err := c.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		s.RestartEmpty(t)
		next := s.reopen(t, ns)
		keep(t, next)
		s.grown(t, next, held, "a restart without state")
	}},
	{"restart/what was forgotten is not granted twice", func(t *testing.T, s *suite) {
		ns, v := namespace(), behindLink(t, s.Driver(t))
		l := s.locker(t, v, s.ttl, ns, "before the restart")
		held := s.lease(t, l, "user/a")
		v.set(true) // it does not notice the restart
		t.Cleanup(func() { v.set(false) })
		s.RestartEmpty(t)
		other := s.reopen(t, ns)
		keep(t, other)
		eventually(t, 4*s.ttl+late, "the key is granted again", func() bool {
			results, err := other.TryAcquire(calling(t), "id", Wants("user/a"))
			answered(t, results, err)
			if err != nil || results[0].Token == 0 {
				return false
			}
			if err := held.Check(); !errors.Is(err, locks.ErrLost) {
				t.Errorf("granted again while the holder's check says %v", err)
			}
			if results[0].Token <= held.Token() {
				t.Errorf("token %d after %d", results[0].Token, held.Token())
			}
			return true
		})
	}},
	{"restart/a live holder keeps its key or knows that it lost it", func(t *testing.T, s *suite) {
		ns := namespace()
		l := s.locker(t, s.Driver(t), s.ttl, ns, "through the restart")
		held := s.lease(t, l, "user/a")
		s.RestartEmpty(t)
		other := s.reopen(t, ns)
		keep(t, other)
		for began := time.Now(); time.Since(began) < 3*s.ttl; time.Sleep(10 * time.Millisecond) {
			results, err := other.TryAcquire(calling(t), "id", Wants("user/a"))
			answered(t, results, err)
			if err == nil && results[0].Token > 0 {
				if err := held.Check(); err == nil {
					t.Fatal("granted again while its holder trusts it")
				}
				return
			}
		}
		if err := held.Check(); err != nil {
			t.Errorf("no other session got the key, yet: %v", err)
		}
	}},
}

func answered(t *testing.T, results []driver.Result, err error) {
	t.Helper()
	if err == nil && (len(results) != 1 || results[0] == driver.Result{}) {
		t.Fatalf("%+v: neither granted nor busy nor unknown", results)
	}
}

// reopen opens a session with a new client as soon as the server is back.
func (s *suite) reopen(t *testing.T, ns string) driver.Session {
	t.Helper()
	d := s.client(t)
	var c driver.Session
	eventually(t, 10*time.Second, "a session after the restart", func() bool {
		opened, err := d.Open(calling(t), driver.Open{Namespace: ns, TTL: s.ttl, Owner: "after the restart"})
		if err != nil {
			return false
		}
		c = opened
		return true
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}
