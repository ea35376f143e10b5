package lockstest

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The answer to an acquire can get lost; the caller asks again under the same id.
var idempotent = []testCase{
	{"idempotent/same id, same grant", func(t *testing.T, s *suite) {
		c, id := s.kept(t, s.client(t), namespace()), rand.Text()
		first := s.tryAs(t, c, id, "user/a", "user/b")
		again := s.tryAs(t, c, id, "user/a", "user/b")
		for i := range first {
			if first[i].Token == 0 || again[i].Token != first[i].Token {
				t.Errorf("first %+v, again %+v: want the same grant", first[i], again[i])
			}
		}
		free(t, c, driver.Held{Key: "user/a", Token: again[0].Token})
		s.take(t, c, "user/a") // one release is enough, however often it was asked for
	}},
	{"idempotent/same id of another session", func(t *testing.T, s *suite) {
		ns, id := namespace(), rand.Text()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		if r := s.tryAs(t, a, id, "user/a"); r[0].Token == 0 {
			t.Fatal("not granted")
		}
		if r := s.tryAs(t, b, id, "user/a"); r[0].Token != 0 {
			t.Error("granted to two sessions that use the same id")
		}
	}},
	{"idempotent/busy first, granted later", func(t *testing.T, s *suite) {
		ns, id := namespace(), rand.Text()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/b")
		first := s.tryAs(t, b, id, "user/a", "user/b")
		free(t, a, held)
		again := s.tryAs(t, b, id, "user/a", "user/b")
		if again[0].Token != first[0].Token || again[1].Token <= held.Token {
			t.Errorf("first %+v, again %+v: want the old grant and a new one", first, again)
		}
	}},
	{"idempotent/after release it is a new grant", func(t *testing.T, s *suite) {
		c, id := s.kept(t, s.client(t), namespace()), rand.Text()
		first := s.tryAs(t, c, id, "user/a")[0].Token
		free(t, c, driver.Held{Key: "user/a", Token: first})
		if again := s.tryAs(t, c, id, "user/a")[0].Token; again <= first {
			t.Errorf("token %d after %d", again, first)
		}
	}},
	{"idempotent/at the same time", func(t *testing.T, s *suite) {
		c, id := s.warm(t, namespace()), rand.Text()
		got := make([]driver.Token, 8)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				results, err := c.TryAcquire(calling(t), id, Wants("user/a"))
				if err == nil {
					err = sound("user/a", results[0])
				}
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = results[0].Token
			})
		}
		all.Wait()
		// Those that came while the first was being granted may have got busy.
		granted := s.tryAs(t, c, id, "user/a")[0].Token
		for _, token := range got {
			if token != 0 && token != granted {
				t.Errorf("tokens %v, then %d: want one grant", got, granted)
			}
		}
		if slices.Max(got) == 0 {
			t.Error("none of them was granted")
		}
	}},
}
