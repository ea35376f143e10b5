package lockstest

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// abandoning: what a try was granted, or may be granted by a request that is still under way, can be given up by the id of the
// acquisition. Places are abandoned in queue.
var abandoning = []testCase{
	{"abandon/what a try was granted", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		id := rand.Text()
		var held []driver.Held
		for _, r := range s.tryAs(t, a, id, "user/a", "user/b") {
			held = append(held, driver.Held{Key: []string{"user/a", "user/b"}[len(held)], Token: r.Token})
		}
		for range 2 { // it is idempotent
			abandon(t, a, driver.Place{Acquisition: id, Key: "user/a"})
		}
		if still(t, a, held[0]) {
			t.Error("what was abandoned is held")
		}
		if !still(t, a, held[1]) {
			t.Error("the other key of the acquisition is not held")
		}
		theirs := s.take(t, b, "user/a")
		s.busy(t, b, held[1])
		abandon(t, a, driver.Place{Acquisition: id, Key: "user/a"})
		if !still(t, b, theirs) {
			t.Error("another session lost a key that was abandoned before it was granted")
		}
		free(t, b, theirs)
		s.refused(t, a, id, "user/a")
		s.take(t, a, "user/a") // under another id
	}},
	{"abandon/before the request of a try arrives", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		id := rand.Text()
		began := time.Now()
		abandon(t, a, driver.Place{Acquisition: id, Key: "user/a"})
		s.refused(t, a, id, "user/a")
		free(t, b, driver.Held{Key: "user/a", Token: s.tryAs(t, b, id, "user/a")[0].Token}) // an id is of one session
		time.Sleep(time.Until(began.Add(a.TTL() * 9 / 10)))                                 // a request may be delayed for as long as the session lasts
		s.refused(t, a, id, "user/a", "user/b")
		s.takeAll(t, a, "user/a", "user/b")
	}},
}

// refused tries for keys under an id that was abandoned.
func (s *suite) refused(t *testing.T, c driver.Session, id string, keys ...string) {
	t.Helper()
	results, err := c.TryAcquire(calling(t), id, Wants(keys...))
	if err != nil || len(results) != len(keys) {
		t.Fatalf("a request that comes late: %+v, %v", results, err)
	}
	for i, r := range results {
		if !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("%s, asked for late: %+v, want ErrAbandoned", keys[i], r)
		}
	}
}

func abandon(t *testing.T, c driver.Session, place driver.Place) {
	t.Helper()
	if err := c.Abandon(calling(t), place.Acquisition, []string{place.Key}); err != nil {
		t.Fatalf("abandon: %v", err)
	}
}
