package lockstest

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// order is for backends with Caps.FIFO: the places of a queue are served in the order in which they were taken.
var order = []testCase{
	{"order/in the order of arrival", func(t *testing.T, s *suite) {
		ns := namespace()
		s.warm(t, ns)
		var held driver.Held
		var sessions []driver.Session
		var places []driver.Place
		for range 5 {
			c := s.kept(t, s.client(t), ns)
			if sessions = append(sessions, c); len(sessions) == 1 {
				held = s.take(t, c, "user/a")
				places = append(places, driver.Place{})
				continue
			}
			places = append(places, queued(t, c, "user/a"))
		}
		for i, c := range sessions[1:] {
			s.busy(t, sessions[0], held) // also when it is held by the one that waited
			for n := i + 1; n < len(sessions); n++ {
				stillQueued(t, sessions[n], places[n])
			}
			free(t, sessions[i], held)
			next := granted(t, c, places[i+1])
			if next.Token <= held.Token {
				t.Errorf("token %d was granted after %d", next.Token, held.Token)
			}
			held = next
		}
		free(t, sessions[4], held)
		s.take(t, sessions[0], "user/a")
	}},
	{"order/a try does not overtake", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		place := queued(t, b, "user/a")
		free(t, a, held)
		s.busy(t, c, granted(t, b, place))
	}},
	{"order/a token is minted at the grant", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		between := s.take(t, c, "user/b") // all keys of a namespace have one counter where there is a queue
		free(t, c, between)
		free(t, a, held)
		if got := granted(t, b, place); got.Token <= between.Token {
			t.Errorf("token %d was granted after %d of another key, which was granted while it was queued", got.Token, between.Token)
		}
	}},
	{"order/one turn is one call", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		held, other, place := s.take(t, a, "user/a"), b, queued(t, b, "user/a")
		for range 10 { // each gives it to the other and waits for the next turn
			next := ask(t, a, rand.Text(), []driver.Held{held}, "user/a")
			if !next.Queued {
				t.Fatalf("%+v: want a place behind the one that waits", next.Result)
			}
			held = granted(t, other, place)
			place, a, other = next.place, other, a
		}
	}},
	{"order/the same id keeps its place", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, first := s.take(t, a, "user/a"), queued(t, b, "user/a")
		second := queued(t, c, "user/a")
		if again := wanted(t, b, first.Acquisition, nil, driver.Want{Key: "user/a", Meta: "anew"})[0]; !again.Queued {
			t.Fatalf("%+v: want it queued", again)
		}
		free(t, a, held)
		held = granted(t, b, first)
		stillQueued(t, c, second)
		if infos, err := c.List(calling(t), "", "", 10); err != nil || len(infos) != 2 || infos[0].Meta != "anew" {
			t.Errorf("%+v, %v: want the meta of the last request", infos, err)
		}
		free(t, b, held)
		granted(t, c, second)
		if r := look(t, b, first); !errors.Is(r.Err, driver.ErrNotQueued) {
			t.Errorf("after its release: %+v, want ErrNotQueued", r)
		}
	}},
	{"order/is listed behind the holder", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, other := s.take(t, a, "user/a"), s.take(t, c, "user/b")
		queuedFor(t, b, driver.Want{Key: "user/a", Meta: "first"})
		queued(t, c, "user/a")
		all, err := c.List(calling(t), "", "", 2)
		if err != nil || len(all) != 4 {
			t.Fatalf("%+v, %v: want the holder of user/a, two that wait, and the holder of user/b", all, err)
		}
		for i, want := range []driver.Info{
			{Key: "user/a", Token: held.Token, Session: a.ID(), Meta: all[0].Meta},
			{Key: "user/a", Place: 1, Session: b.ID(), Meta: "first"},
			{Key: "user/a", Place: 2, Session: c.ID()},
			{Key: "user/b", Token: other.Token, Session: c.ID(), Meta: all[3].Meta},
		} {
			got := all[i]
			if since := time.Since(got.Since); !got.Since.IsZero() && since.Abs() > time.Minute {
				t.Errorf("%d: since %v, which is %v ago", i, got.Since, since)
			}
			got.Since, got.Remaining, got.Owner = time.Time{}, 0, ""
			if got != want {
				t.Errorf("%d: %+v, want %+v", i, got, want)
			}
		}
		if page, err := c.List(calling(t), "user/a", "", 1); err != nil || len(page) != 3 {
			t.Errorf("a page of one key: %+v, %v, want all that hold it and wait for it", page, err)
		}
	}},
}
