package lockstest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var session = []testCase{
	{"session/one renewal keeps all keys", func(t *testing.T, s *suite) {
		ns, keys := namespace(), numbered(50)
		b := s.warm(t, ns)
		a := s.openFor(t, s.client(t), ns, s.patience())
		stop := keep(t, a)
		held := s.takeAll(t, a, keys...)
		for began := time.Now(); time.Since(began) < 3*a.TTL()/2; time.Sleep(20 * time.Millisecond) {
			s.busy(t, b, held[0])
			s.busy(t, b, held[len(held)-1])
		}
		stop()
		for i, ok := range check(t, a, held) {
			if !ok {
				t.Errorf("%s was lost though the session was renewed", held[i].Key)
			}
		}
	}},
	{"session/silence frees its keys in time", func(t *testing.T, s *suite) {
		ns, d := namespace(), s.client(t)
		b := s.warm(t, ns)
		a := s.open(t, d, ns)
		held := s.take(t, a, "user/a")
		sent := time.Now()
		if err := Renew(calling(t), a); err != nil {
			t.Fatal(err)
		}
		eventually(t, a.TTL()+late, "a silent session's key is free", func() bool {
			return s.try(t, b, held.Key)[0].Token > 0
		})
		if after := time.Since(sent); after < s.trusted(a, d) {
			t.Errorf("granted to another session %v after a renewal that may be trusted for %v", after, s.trusted(a, d))
		}
	}},
	{"session/close frees all", func(t *testing.T, s *suite) {
		ns, keys := namespace(), numbered(50)
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.takeAll(t, a, keys...)
		if err := a.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		s.takeAll(t, b, keys...)
		if err := Renew(calling(t), a); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("renew of a closed session: %v, want ErrSessionEnded", err)
		}
		if results, err := a.TryAcquire(calling(t), "id", Wants("user/x")); err == nil {
			t.Errorf("acquire by a closed session: %+v, want an error", results)
		}
		if still(t, a, held[0]) {
			t.Error("check: a closed session holds a key")
		}
	}},
}
