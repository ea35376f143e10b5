package lockstest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Package locks on the driver.
var portable = []testCase{
	{"portable/the holder learns of a loss before another grant", func(t *testing.T, s *suite) {
		v := behindLink(t, s.Driver(t))
		earlyLoss(t, s, v, func() { v.set(true) }, func() { v.set(false) })
	}},
	{"portable/the same when its client is cut off", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			t.Skip("the harness cannot cut off a client")
		}
		d := s.Driver(t)
		earlyLoss(t, s, d, func() { s.Disconnect(t, d) }, func() { s.Reconnect(t, d) })
	}},
	{"portable/a new session after loss", func(t *testing.T, s *suite) {
		v := behindLink(t, s.Driver(t))
		l := s.locker(t, v, s.ttl, namespace(), "one")
		held := s.lease(t, l, "user/a")
		if s.ExpireSession != nil {
			s.ExpireSession(t, v.last())
		} else {
			v.set(true)
		}
		cause := ended(t, held, 2*s.ttl+late)
		v.set(false)
		if !errors.Is(cause, locks.ErrLost) || !errors.Is(held.Check(), locks.ErrLost) {
			t.Errorf("cause %v, check %v: want ErrLost", cause, held.Check())
		}
		if err := held.Release(t.Context()); !errors.Is(err, locks.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		again := s.lease(t, l, "user/a")
		if again.Token() <= held.Token() || again.Check() != nil {
			t.Errorf("token %d after %d, check %v", again.Token(), held.Token(), again.Check())
		}
		if err := held.Release(t.Context()); !errors.Is(err, locks.ErrLost) || again.Check() != nil {
			t.Errorf("release of the old one: %v; check of the new one: %v", err, again.Check())
		}
	}},
	{"portable/a lease outlives its ttl", func(t *testing.T, s *suite) {
		ns := namespace()
		l, other := s.locker(t, s.Driver(t), s.patience(), ns, "one"), s.kept(t, s.client(t), ns)
		held := s.lease(t, l, "user/a")
		for began := time.Now(); time.Since(began) < 3*s.patience()/2; time.Sleep(20 * time.Millisecond) {
			if err := held.Check(); err != nil {
				t.Fatal(err)
			}
			s.busy(t, other, driver.Held{Key: held.Key(), Token: held.Token()})
		}
	}},
	{"portable/force", func(t *testing.T, s *suite) {
		ns := namespace()
		one, two := s.locker(t, s.Driver(t), s.patience(), ns, "one"), s.locker(t, s.Driver(t), s.patience(), ns, "two")
		victim, spared := s.lease(t, one, "user/a"), s.lease(t, one, "user/b")
		ok, err := two.ForceRelease(t.Context(), "user/a", victim.Token())
		if !ok || err != nil {
			t.Fatalf("force release: %v, %v", ok, err)
		}
		if cause := ended(t, victim, s.patience()+late); !errors.Is(cause, locks.ErrForced) {
			t.Errorf("cause %v, want ErrForced", cause)
		}
		if err := spared.Check(); err != nil {
			t.Errorf("the other lease: %v", err)
		}
	}},
	{"portable/do", doing},
	{"portable/inspect over several pages", func(t *testing.T, s *suite) {
		ns, keys := namespace(), numbered(450)
		one, two := s.locker(t, s.Driver(t), s.patience(), ns, "one"), s.locker(t, s.Driver(t), s.patience(), ns, "two")
		s.lease(t, one, "sys/a")
		for batch := range slices.Chunk(keys, 25) { // in small ones: a variant may need a handshake for each key
			var reqs []locks.Request
			for _, key := range batch {
				reqs = append(reqs, locks.Request{Key: key})
			}
			attempts, err := one.TryAcquire(t.Context(), reqs...)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range attempts {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		var got []string
		for info, err := range two.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Fatal(err)
			}
			if info.Owner != "one" {
				t.Fatalf("owner of %s: %q", info.Key, info.Owner)
			}
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		got = nil
		for info, err := range two.InspectAfter(t.Context(), "user/", keys[len(keys)/2]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(keys[len(keys)/2+1:], got); diff != "" {
			t.Errorf("keys behind %s (-want +got):\n%s", keys[len(keys)/2], diff)
		}
	}},
	{"portable/close frees all", func(t *testing.T, s *suite) {
		ns := namespace()
		l, err := locks.New(s.Driver(t), locks.Options{TTL: s.patience(), Namespace: ns, CallTimeout: callTimeout})
		if err != nil {
			t.Fatal(err)
		}
		a, b := s.lease(t, l, "user/a"), s.lease(t, l, "user/b")
		other := s.kept(t, s.client(t), ns)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(a.Check(), locks.ErrReleased) || !errors.Is(b.Check(), locks.ErrReleased) {
			t.Errorf("%v, %v: want ErrReleased", a.Check(), b.Check())
		}
		s.takeAll(t, other, "user/a", "user/b")
	}},
}

// earlyLoss: cut must disconnect a Locker on d from its server.
func earlyLoss(t *testing.T, s *suite, d driver.Driver, cut, reconnect func()) {
	if !d.Caps().EarlyLoss {
		defer d.Close()
		t.Skip("the backend does not promise EarlyLoss")
	}
	ns := namespace()
	l, other := s.locker(t, d, s.ttl, ns, "cut off"), s.kept(t, s.client(t), ns)
	t.Cleanup(reconnect)
	held := s.lease(t, l, "user/a")
	cut()
	eventually(t, 2*s.ttl+late, "the key is free", func() bool {
		if s.try(t, other, "user/a")[0].Token == 0 {
			return false
		}
		// The context is cancelled by a timer: a moment is granted for this process to run it.
		if err := held.Check(); !errors.Is(err, locks.ErrLost) {
			t.Errorf("granted to another session while the holder's check says %v", err)
		}
		if left := time.Until(held.Deadline()); left > 0 {
			t.Errorf("granted to another session %v before the holder's deadline", left)
		}
		return true
	})
	if cause := ended(t, held, 100*time.Millisecond); !errors.Is(cause, locks.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
}

// doing: Do excludes, across clients and within one.
func doing(t *testing.T, s *suite) {
	const each, rounds = 3, 5
	ns := namespace()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var inside atomic.Int64
	var all sync.WaitGroup
	total := 0 // guarded by the lock and, for the race detector, by mu
	var mu sync.Mutex
	for range 2 {
		l := s.locker(t, s.Driver(t), s.patience(), ns, "doing")
		if err := s.lease(t, l, "user/warm").Release(ctx); err != nil { // no longer recovering
			t.Fatal(err)
		}
		for range each {
			all.Go(func() {
				for range rounds {
					err := locks.Do(ctx, l, locks.Request{Key: "user/a"}, func(context.Context, locks.Token) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d at the same time", n)
						}
						defer inside.Add(-1)
						mu.Lock()
						defer mu.Unlock()
						total++
						return nil
					})
					if err != nil {
						t.Errorf("do: %v", err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if want := 2 * each * rounds; total != want {
		t.Errorf("ran %d times, want %d", total, want)
	}
}
