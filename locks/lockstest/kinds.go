package lockstest

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// shared is for backends with Caps.Shared.
var shared = []testCase{
	{"shared/together", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		first, second := s.tryFor(t, a, reader), s.tryFor(t, b, reader)
		if first.Token == 0 || second.Token == 0 || first.Token == second.Token {
			t.Fatalf("%+v and %+v: want both granted, with a token each", first, second)
		}
		held := driver.Held{Key: "user/a", Token: first.Token}
		if r := s.tryFor(t, b, writer); r.Holder == nil || !r.Holder.Shared {
			t.Fatalf("a writer beside readers: %+v, want a shared holder", r)
		}
		free(t, a, held)
		if r := s.tryFor(t, a, writer); r.Holder == nil {
			t.Fatalf("a writer beside the other reader: %+v, want busy", r)
		}
		free(t, b, driver.Held{Key: "user/a", Token: second.Token})
		r := s.tryFor(t, a, writer)
		if r.Token <= max(first.Token, second.Token) {
			t.Fatalf("a writer after the readers: %+v, want a larger token than %d and %d", r, first.Token, second.Token)
		}
		if r := s.tryFor(t, b, reader); r.Holder == nil || r.Holder.Shared {
			t.Errorf("a reader beside a writer: %+v, want busy", r)
		}
	}},
}

// readers is for those whose sessions have a Queue in order, too.
var readers = []testCase{
	{"shared/no reader overtakes a writer", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		first := s.tryFor(t, a, reader)
		writes := queuedFor(t, b, writer)
		if r := s.tryFor(t, c, reader); r.Holder == nil {
			t.Fatalf("a reader was admitted over a waiting writer: %+v", r)
		}
		reads, readsToo := queuedFor(t, c, reader), queuedFor(t, a, reader)
		free(t, a, driver.Held{Key: "user/a", Token: first.Token})
		written := granted(t, b, writes)
		stillQueued(t, c, reads)
		free(t, b, written)
		for _, held := range []driver.Held{granted(t, c, reads), granted(t, a, readsToo)} { // both
			if held.Token <= written.Token {
				t.Errorf("token %d after a writer's %d", held.Token, written.Token)
			}
		}
	}},
	{"shared/is listed", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		s.tryFor(t, a, reader)
		queuedFor(t, b, writer)
		queuedFor(t, c, reader)
		listedAs(t, a, "shared", "1 exclusive", "2 shared")
	}},
	{"shared/readers pass when the writer before them gives up", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		s.tryFor(t, a, reader)
		writes, reads := queuedFor(t, b, writer), queuedFor(t, c, reader)
		abandon(t, b, writes)
		granted(t, c, reads)
	}},
	{"shared/behind a writer that died while it waited", func(t *testing.T, s *suite) {
		for next, w := range map[string]driver.Want{"a reader": reader, "a writer": writer} {
			ns := namespace()
			a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
			dead := s.open(t, s.client(t), ns)
			held := driver.Held{Key: "user/a", Token: s.tryFor(t, a, reader).Token}
			queuedFor(t, dead, writer)
			place := queuedFor(t, b, w)
			stillQueued(t, b, place)
			if w.Shared { // the readers stay, and nobody says that the writer is dead: a look ends it
				eventually(t, dead.TTL()+late, next+" is granted", func() bool { return look(t, b, place).Token > 0 })
			} else {
				s.expire(t, dead)
				free(t, a, held)
			}
			if got := granted(t, b, place); got.Token <= held.Token {
				t.Errorf("%s: token %d was granted after %d", next, got.Token, held.Token)
			}
		}
	}},
}

// limits is for backends with Caps.Limit whose sessions have a Queue in order.
var limits = []testCase{
	{"limit/so many together", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		var held []driver.Held
		for _, c := range []driver.Session{a, b, a} {
			r := s.tryFor(t, c, three)
			if r.Token == 0 {
				t.Fatalf("permit %d of 3: %+v", len(held)+1, r)
			}
			held = append(held, driver.Held{Key: "user/a", Token: r.Token})
		}
		if r := s.tryFor(t, b, three); r.Holder == nil || r.Holder.Limit != 3 {
			t.Fatalf("the fourth of three: %+v, want busy", r)
		}
		place := queuedFor(t, b, three)
		free(t, a, held[2])
		granted(t, b, place)
		if !still(t, a, held[0]) || still(t, a, held[2]) {
			t.Error("a session with two permits released the wrong one")
		}
	}},
	{"limit/another limit excludes", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		first := s.tryFor(t, a, three)
		for _, w := range []driver.Want{{Key: "user/a", Limit: 4}, writer, reader} {
			if r := s.tryFor(t, b, w); r.Holder == nil {
				t.Errorf("%+v beside a holder with limit 3: %+v, want busy", w, r)
			}
		}
		place := queuedFor(t, b, driver.Want{Key: "user/a", Limit: 4})
		listedAs(t, a, "limit 3", "1 limit 4")
		if r := s.tryFor(t, a, three); r.Holder == nil {
			t.Errorf("a holder was admitted over a place with another limit: %+v", r)
		}
		free(t, a, driver.Held{Key: "user/a", Token: first.Token})
		granted(t, b, place)
		if r := s.tryFor(t, a, driver.Want{Key: "user/a", Limit: 4}); r.Token == 0 {
			t.Errorf("the second of four: %+v", r)
		}
	}},
	{"limit/one is exclusive", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		if r := s.tryFor(t, a, driver.Want{Key: "user/a", Limit: 1}); r.Token == 0 {
			t.Fatalf("%+v", r)
		}
		if r := s.tryFor(t, b, writer); r.Holder == nil {
			t.Errorf("%+v, want busy", r)
		}
	}},
}

var (
	writer = driver.Want{Key: "user/a"}
	reader = driver.Want{Key: "user/a", Shared: true}
	three  = driver.Want{Key: "user/a", Limit: 3}
)

// listedAs looks at how a list says that user/a is held, and asked for: the place of one that waits, and its kind.
func listedAs(t *testing.T, c driver.Session, want ...string) {
	t.Helper()
	infos, err := c.List(calling(t), "user/a", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, info := range infos {
		kind := "exclusive"
		switch {
		case info.Shared:
			kind = "shared"
		case info.Limit > 1:
			kind = fmt.Sprint("limit ", info.Limit)
		}
		if info.Place > 0 {
			kind = fmt.Sprint(info.Place, " ", kind)
		}
		got = append(got, kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
}

// tryFor tries once for one want, under a new id.
func (s *suite) tryFor(t *testing.T, c driver.Session, w driver.Want) (result driver.Result) {
	t.Helper()
	id := rand.Text()
	s.recovered(t, func() error {
		results, err := c.TryAcquire(calling(t), id, []driver.Want{w})
		if err != nil {
			return err
		}
		result = results[0]
		return sound(w.Key, result)
	})
	return result
}
