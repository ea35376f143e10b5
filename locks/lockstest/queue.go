package lockstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// queue is for sessions with a Queue: waiting, in whatever order.
var queue = []testCase{
	{"queue/release and acquire without a waiter", func(t *testing.T, s *suite) {
		c := s.warm(t, namespace())
		held := s.take(t, c, "user/a")
		next := ask(t, c, rand.Text(), []driver.Held{held}, "user/a")
		if next.Token <= held.Token || next.Queued {
			t.Errorf("%+v: want it granted at once, after %d", next.Result, held.Token)
		}
		if r := look(t, c, next.place); r.Token != next.Token {
			t.Errorf("look: %+v, want token %d", r, next.Token)
		}
	}},
	{"queue/free keys are granted in one call", func(t *testing.T, s *suite) {
		ns, d := namespace(), s.client(t)
		a := s.warm(t, ns)
		b := s.kept(t, d, ns)
		id := rand.Text()
		busy := s.take(t, a, "user/b")
		results := asks(t, b, id, nil, "user/a", "user/b", "user/c")
		if results[0].Token == 0 || !results[1].Queued || results[2] != (driver.Result{}) {
			t.Fatalf("%+v: want the first granted, the second queued, and the third not asked for", results)
		}
		if h := results[1].Holder; h == nil || h.Token != busy.Token || h.Session != a.ID() {
			t.Errorf("queued behind %+v, want token %d of %s", h, busy.Token, a.ID())
		}
		s.take(t, a, "user/c")
		free(t, a, busy)
		held := granted(t, b, driver.Place{Acquisition: id, Key: "user/b"})
		if again := asks(t, b, id, nil, "user/a", "user/b"); again[0].Token != results[0].Token || again[1].Token != held.Token {
			t.Errorf("again %+v: want %d and %d", again, results[0].Token, held.Token)
		}
	}},
	{"queue/the same id has one place", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		for range 2 {
			if again := wanted(t, b, place.Acquisition, nil, driver.Want{Key: "user/a", Meta: "anew"})[0]; !again.Queued {
				t.Fatalf("%+v: want it queued", again)
			}
		}
		free(t, a, held)
		held = granted(t, b, place)
		if infos, err := a.List(calling(t), "", "", 10); err != nil || len(infos) != 1 || infos[0].Meta != "anew" {
			t.Errorf("%+v, %v: want the holder alone, with the meta of the last request", infos, err)
		}
		free(t, b, held)
		if r := look(t, b, place); !errors.Is(r.Err, driver.ErrNotQueued) {
			t.Errorf("after its release: %+v, want ErrNotQueued", r)
		}
		s.take(t, a, "user/a")
	}},
	{"queue/a grant without notification", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		free(t, a, held)
		var r driver.Result
		eventually(t, callTimeout, "look says that it is granted", func() bool { // nobody has read the notification
			r = look(t, b, place)
			return r.Token > held.Token
		})
		if got := granted(t, b, place); got.Token != r.Token {
			t.Errorf("token %d, and %d by notification", r.Token, got.Token)
		}
	}},
	{"queue/behind a holding of its own session", func(t *testing.T, s *suite) {
		c := s.warm(t, namespace())
		held, place := s.take(t, c, "user/a"), queued(t, c, "user/a")
		free(t, c, held)
		if next := granted(t, c, place); next.Token <= held.Token {
			t.Errorf("token %d was granted after %d", next.Token, held.Token)
		}
	}},
	{"queue/an abandoned place", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, first := s.take(t, a, "user/a"), queued(t, b, "user/a")
		second := queued(t, c, "user/a")
		for range 2 { // it is idempotent
			abandon(t, b, first)
		}
		if r := look(t, b, first); !errors.Is(r.Err, driver.ErrNotQueued) {
			t.Errorf("look: %+v, want ErrNotQueued", r)
		}
		if r := ask(t, b, first.Acquisition, nil, "user/a"); !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("a request that comes late: %+v, want ErrAbandoned", r.Result)
		}
		free(t, a, held)
		held = granted(t, c, second)
		free(t, c, held)
		if r := ask(t, b, first.Acquisition, nil, "user/a"); !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("a request that comes late, for a free key: %+v, want ErrAbandoned", r.Result)
		}
		s.take(t, b, "user/a") // under another id
	}},
	{"queue/an abandoned grant", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, first := s.take(t, a, "user/a"), queued(t, b, "user/a")
		free(t, a, held)
		held = granted(t, b, first)
		second := queued(t, c, "user/a")
		abandon(t, b, first)
		if still(t, b, held) {
			t.Error("what was abandoned is held")
		}
		granted(t, c, second)
	}},
	{"queue/an abandoned acquisition is the only one", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held, first := s.take(t, a, "user/a"), queued(t, b, "user/a")
		second := queued(t, b, "user/a") // of the same session
		if r := ask(t, c, first.Acquisition, nil, "user/a"); !r.Queued {
			t.Fatalf("the same id in another session: %+v, want it queued", r.Result)
		}
		free(t, b, driver.Held{Key: "user/a"}) // a token that nobody has
		stillQueued(t, b, first)
		abandon(t, b, first)
		stillQueued(t, b, second)
		stillQueued(t, c, first)
		abandon(t, b, second)
		if r := ask(t, b, first.Acquisition, nil, "user/a"); !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("a late request of the first of two that were abandoned: %+v, want ErrAbandoned", r.Result)
		}
		free(t, a, held)
		granted(t, c, first)
	}},
	{"queue/abandoned before it arrives", func(t *testing.T, s *suite) {
		c, place := s.warm(t, namespace()), driver.Place{Acquisition: rand.Text(), Key: "user/a"}
		abandon(t, c, place)
		if r := ask(t, c, place.Acquisition, nil, place.Key); !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("%+v, want ErrAbandoned", r.Result)
		}
		s.take(t, c, place.Key)
		time.Sleep(c.TTL() / 2) // a delayed request may arrive for as long as the session lasts
		if r := ask(t, c, place.Acquisition, nil, "user/b"); !errors.Is(r.Err, driver.ErrAbandoned) {
			t.Errorf("half a ttl later: %+v, want ErrAbandoned", r.Result)
		}
	}},
	{"queue/a place of a dead session", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.open(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		queued(t, b, "user/a")
		place := queued(t, c, "user/a")
		s.expire(t, b)
		free(t, a, held)
		if next := granted(t, c, place); next.Token <= held.Token {
			t.Errorf("token %d was granted after %d", next.Token, held.Token)
		}
	}},
	{"queue/behind a place that died unnoticed, when the holder closes", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b, c := s.warm(t, ns), s.open(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		s.take(t, a, "user/a")
		queued(t, b, "user/a")
		place := queued(t, c, "user/a")
		time.Sleep(b.TTL() + late)
		if err := a.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		granted(t, c, place)
	}},
	{"queue/behind a dead session", func(t *testing.T, s *suite) {
		ns := namespace()
		b := s.warm(t, ns)
		a := s.open(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		began := time.Now()
		for { // it is silent: nothing but Look ends it
			r := look(t, b, place)
			if r.Token > held.Token {
				break
			}
			if time.Since(began) > a.TTL()+late {
				t.Fatalf("still %+v after %v", r, time.Since(began))
			}
			time.Sleep(20 * time.Millisecond)
		}
		granted(t, b, place)
	}},
	{"queue/behind a session that closes", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		if err := a.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		if next := granted(t, b, place); next.Token <= held.Token {
			t.Errorf("token %d was granted after %d", next.Token, held.Token)
		}
	}},
	{"queue/behind a holder that is evicted", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.warm(t, ns), s.kept(t, s.client(t), ns)
		held, place := s.take(t, a, "user/a"), queued(t, b, "user/a")
		if freed, err := b.Evict(calling(t), held.Key, held.Token); err != nil || !freed {
			t.Fatalf("evict: %t, %v", freed, err)
		}
		granted(t, b, place)
		if still(t, a, held) {
			t.Error("the evicted holder holds it")
		}
	}},
	{"queue/all are served, one at a time", served},
	{"queue/of an ended session", func(t *testing.T, s *suite) {
		ns := namespace()
		s.warm(t, ns)
		c := s.open(t, s.client(t), ns)
		if err := c.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Queue().Acquire(calling(t), rand.Text(), nil, Wants("user/a")); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("acquire: %v, want ErrSessionEnded", err)
		}
		if _, err := c.Queue().Look(calling(t), []driver.Place{{Acquisition: "a", Key: "user/a"}}); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("look: %v, want ErrSessionEnded", err)
		}
	}},
}

// served: clients that wait for one key are served one at a time, with tokens that grow, and none is forgotten.
func served(t *testing.T, s *suite) {
	const clients, rounds = 6, 10
	ns := namespace()
	s.warm(t, ns)
	var mu sync.Mutex
	var last driver.Token
	turns := 0 // guarded by the key and, for the race detector, by mu
	var working sync.WaitGroup
	for range clients {
		c := s.kept(t, s.client(t), ns)
		working.Go(func() {
			for range rounds {
				place := driver.Place{Acquisition: rand.Text(), Key: "user/a"}
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				token, err := waitFor(ctx, c, place)
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if token <= last {
					t.Errorf("token %d was granted after %d", token, last)
				}
				last = token
				was := turns
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				turns = was + 1
				mu.Unlock()
				if err := c.Release(calling(t), []driver.Held{{Key: place.Key, Token: token}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	if !t.Failed() && turns != clients*rounds {
		t.Errorf("%d turns were counted, want %d", turns, clients*rounds)
	}
}

// waitFor takes a place and waits for its grant.
func waitFor(ctx context.Context, c driver.Session, place driver.Place) (driver.Token, error) {
	results, err := c.Queue().Acquire(ctx, place.Acquisition, nil, Wants(place.Key))
	if err != nil {
		return 0, err
	}
	for r := results[0]; ; r = results[0] {
		if r.Token > 0 || r.Err != nil {
			return r.Token, r.Err
		}
		select {
		case g := <-c.Queue().Granted():
			if g.Place == place {
				return g.Token, nil
			}
		case <-time.After(time.Second): // a notification may be lost
			if results, err = c.Queue().Look(ctx, []driver.Place{place}); err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %w", place.Key, ctx.Err())
		}
	}
}
