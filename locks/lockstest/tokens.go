package lockstest

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// grown takes the key once more, and checks that the token is larger than the last one.
func (s *suite) grown(t *testing.T, c driver.Session, last driver.Held, after string) driver.Held {
	t.Helper()
	held := s.take(t, c, last.Key)
	if held.Token <= last.Token {
		t.Errorf("token %d after %d: it must grow over %s", held.Token, last.Token, after)
	}
	return held
}

var tokens = []testCase{
	{"tokens/grow", func(t *testing.T, s *suite) {
		ns := namespace()
		a := s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		for range 5 {
			free(t, a, held)
			held = s.grown(t, a, held, "a release")
		}
		free(t, a, held)
		b := s.kept(t, s.client(t), ns)
		held = s.grown(t, b, held, "a change of client")
		if err := b.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		held = s.grown(t, a, held, "the end of a session")
		if ok, err := a.Evict(calling(t), held.Key, held.Token); err != nil || !ok {
			t.Fatalf("evict: %v, %v", ok, err)
		}
		s.grown(t, a, held, "an eviction")
	}},
	{"tokens/grow over expiry", func(t *testing.T, s *suite) {
		ns := namespace()
		b := s.warm(t, ns)
		a := s.open(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		s.expire(t, a)
		var next driver.Result
		eventually(t, callTimeout, "an expired session's key is free", func() bool {
			next = s.try(t, b, "user/a")[0]
			return next.Token > 0
		})
		if next.Token <= held.Token {
			t.Errorf("token %d after %d: it must grow over an expiry", next.Token, held.Token)
		}
	}},
	{"tokens/grow when no key was held", func(t *testing.T, s *suite) {
		ns := namespace()
		held := driver.Held{Key: "user/a"}
		for range 3 { // the namespace is empty in between
			c := s.kept(t, s.client(t), ns)
			held = s.grown(t, c, held, "an empty namespace")
			if err := c.Close(calling(t)); err != nil {
				t.Fatal(err)
			}
		}
	}},
}
