package lockstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var release = []testCase{
	{"release/idempotent", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		free(t, a, held)
		free(t, a, held)
		next := s.take(t, b, "user/a")
		free(t, a, held) // late: another session holds it then
		if !still(t, b, next) {
			t.Error("an old release freed the next holder's key")
		}
	}},
	{"release/frees no other session's", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		free(t, b, held)
		if !still(t, a, held) {
			t.Error("another session freed it with the right token")
		}
		for _, wrong := range []driver.Token{held.Token - 1, held.Token + 1, 1} {
			free(t, a, driver.Held{Key: held.Key, Token: wrong})
			if !still(t, a, held) {
				t.Fatalf("token %d freed what is held under %d", wrong, held.Token)
			}
		}
		free(t, a, driver.Held{Key: "user/never", Token: 7}, held)
		s.take(t, b, "user/a")
	}},
	{"release/old token of the same session", func(t *testing.T, s *suite) {
		c := s.kept(t, s.client(t), namespace())
		old := s.take(t, c, "user/a")
		free(t, c, old)
		held := s.take(t, c, "user/a")
		free(t, c, old)
		if !still(t, c, held) {
			t.Error("the old token freed the new grant")
		}
	}},
	{"release/what was not sent is held", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			t.Skip("the harness cannot cut off a client")
		}
		if s.KeysDieAlone {
			t.Skip("a key ends with its connection")
		}
		d, ns := s.client(t), namespace()
		s.warm(t, ns)
		a, b := s.openFor(t, d, ns, 2*s.patience()), s.kept(t, s.client(t), ns) // it takes some seconds to find out that nothing is sent
		held := s.takeAll(t, a, "user/a", "user/b")
		if err := Renew(calling(t), a); err != nil {
			t.Fatal(err)
		}
		s.Disconnect(t, d)
		var errs []error
		release := func(held driver.Held) error {
			ctx, cancel := context.WithTimeout(t.Context(), s.patience()/8)
			defer cancel()
			return a.Release(ctx, []driver.Held{held})
		}
		// What has several servers may take longer to find out that none can be reached. What is unknown until then may be sent later.
		err, sent := release(held[0]), false
		for began := time.Now(); time.Since(began) < s.patience()/2 && !errors.Is(err, driver.ErrUnreachable); err = release(held[0]) {
			sent = true
			time.Sleep(5 * time.Millisecond)
		}
		if sent {
			err = nil
		}
		errs = append(errs, err, release(held[1]))
		s.Reconnect(t, d)
		if err := Renew(calling(t), a); err != nil {
			t.Fatalf("the session has ended: %v", err)
		}
		for i, err := range errs {
			if errors.Is(err, driver.ErrUnreachable) {
				if !still(t, a, held[i]) {
					t.Errorf("%s is not held after %v", held[i].Key, err)
				}
				s.busy(t, b, held[i])
			}
		}
		free(t, a, held...)
		s.takeAll(t, b, "user/a", "user/b")
	}},
	{"evict/by token", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.openFor(t, s.client(t), ns, s.patience()), s.kept(t, s.client(t), ns)
		stop := keep(t, a)
		held := s.takeAll(t, a, "user/a", "user/b")
		evict := func(key string, token driver.Token, want bool) {
			t.Helper()
			if got, err := b.Evict(calling(t), key, token); err != nil || got != want {
				t.Errorf("evict %s under token %d: %v, %v, want %v", key, token, got, err, want)
			}
		}
		evict("user/a", held[0].Token+1, false)
		evict("user/never", held[0].Token, false)
		if !still(t, a, held[0]) {
			t.Fatal("evicted by a wrong token")
		}
		stop() // one renewal says it, and that is to be the one below
		evict("user/a", held[0].Token, true)
		evict("user/a", held[0].Token, false)
		if still(t, a, held[0]) || !still(t, a, held[1]) {
			t.Error("want user/a gone and user/b held")
		}
		if evicted, err := a.Renew(calling(t), nil); err != nil || !evicted {
			t.Errorf("renew: %t, %v, want it to say that a key was evicted, and the session to go on", evicted, err)
		}
		keep(t, a)
		next := s.grown(t, b, held[0], "an eviction")
		free(t, a, held[0])
		if !still(t, b, next) {
			t.Error("the victim freed the next holder's key")
		}
	}},
	{"release/what was released is not evicted", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, gone := s.take(t, a, "user/a"), s.take(t, a, "user/b")
		free(t, a, gone)
		if freed, err := b.Evict(calling(t), gone.Key, gone.Token); err != nil || freed {
			t.Errorf("evict what is free: %t, %v", freed, err)
		}
		if evicted, err := a.Renew(calling(t), []driver.Held{held, gone}); err != nil || !evicted {
			t.Errorf("renew with a sample that is not held: %t, %v, want it to say so", evicted, err)
		}
	}},
}
