package lockstest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var exclusive = []testCase{
	{"exclusive/one of two clients", func(t *testing.T, s *suite) {
		ns := namespace()
		a, b := s.kept(t, s.client(t), ns), s.kept(t, s.client(t), ns)
		held := s.take(t, a, "user/a")
		s.busy(t, b, held)
		s.busy(t, a, held) // another acquisition of the same session
		if !still(t, a, held) {
			t.Error("check: the holder does not hold it")
		}
		if still(t, b, held) {
			t.Error("check: the other client holds it")
		}
		free(t, a, held)
		s.take(t, b, "user/a")
	}},
	{"exclusive/two sessions of one client", func(t *testing.T, s *suite) {
		ns, d := namespace(), s.client(t)
		a, b := s.kept(t, d, ns), s.kept(t, d, ns)
		if a.ID() == b.ID() {
			t.Fatalf("both sessions are called %s", a.ID())
		}
		held := s.take(t, a, "user/a")
		s.busy(t, b, held)
		if err := b.Close(calling(t)); err != nil {
			t.Fatal(err)
		}
		if !still(t, a, held) {
			t.Error("closing one session freed what the other holds")
		}
	}},
	{"exclusive/contenders", contenders},
	{"exclusive/namespaces do not touch", func(t *testing.T, s *suite) {
		ns := namespace()
		d := s.client(t)
		spaces := []string{ns, ns + "2", ns + "/user", ns + ".x"}
		var held []driver.Held
		var sessions []driver.Session
		for _, space := range spaces {
			c := s.kept(t, d, space)
			sessions = append(sessions, c)
			held = append(held, s.take(t, c, "user/a"))
		}
		free(t, sessions[0], held[0])
		for i, c := range sessions[1:] {
			if !still(t, c, held[i+1]) {
				t.Errorf("namespace %s lost its key when %s released its own", spaces[i+1], ns)
			}
		}
		infos, err := sessions[0].List(calling(t), "", "", 10)
		if err != nil || len(infos) != 0 {
			t.Errorf("list shows others' keys: %v, %v", infos, err)
		}
	}},
}

// contenders: 32 goroutines of 8 clients want one key.
func contenders(t *testing.T, s *suite) {
	const clients, each, rounds = 8, 4, 40
	ns := namespace()
	sessions := make([]driver.Session, clients)
	for i := range sessions {
		sessions[i] = s.kept(t, s.client(t), ns)
	}
	s.warm(t, ns)

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var holders, grants atomic.Int64
	var mu sync.Mutex
	var last driver.Token
	contend := func(c driver.Session) {
		for ctx.Err() == nil && grants.Load() < rounds {
			results, err := c.TryAcquire(ctx, rand.Text(), Wants("user/a"))
			if err == nil {
				err = sound("user/a", results[0])
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				t.Error(err)
				return
			case results[0].Holder != nil:
				time.Sleep(time.Millisecond)
				continue
			}
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d holders", n)
			}
			mu.Lock()
			if results[0].Token <= last {
				t.Errorf("token %d was granted after %d", results[0].Token, last)
			}
			last = results[0].Token
			mu.Unlock()
			time.Sleep(time.Millisecond)
			holders.Add(-1)
			grants.Add(1)
			held := []driver.Held{{Key: "user/a", Token: results[0].Token}}
			if err := c.Release(ctx, held); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("release: %v", err)
				return
			}
		}
	}
	var all sync.WaitGroup
	for _, c := range sessions {
		for range each {
			all.Go(func() { contend(c) })
		}
	}
	all.Wait()
	if grants.Load() < rounds {
		t.Errorf("%d grants in 15 s, want %d", grants.Load(), rounds)
	}
}
