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

const (
	callTimeout = 5 * time.Second
	// late is how much longer than its ttl a server may keep a session.
	late = 1500 * time.Millisecond
)

func calling(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

func namespace() string { return "lockstest-" + rand.Text()[:12] }

// numbered is n keys, in order.
func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user/%03d", i)
	}
	return keys
}

// eventually waits for cond.
func eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for began := time.Now(); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// client is a new client, closed when the test ends.
func (s *suite) client(t *testing.T) driver.Driver {
	t.Helper()
	d := s.Driver(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	return d
}

// open opens a session that is not renewed. It would expire while a server that lost its state grants nothing:
// call warm for the namespace before.
func (s *suite) open(t *testing.T, d driver.Driver, namespace string) driver.Session {
	t.Helper()
	return s.openFor(t, d, namespace, s.ttl)
}

func (s *suite) openFor(t *testing.T, d driver.Driver, namespace string, ttl time.Duration) driver.Session {
	t.Helper()
	return s.openAs(t, d, driver.Open{Namespace: namespace, TTL: ttl, Owner: "owner of " + t.Name()})
}

func (s *suite) openAs(t *testing.T, d driver.Driver, o driver.Open) driver.Session {
	t.Helper()
	var c driver.Session
	s.recovered(t, func() (err error) {
		c, err = d.Open(calling(t), o)
		return err
	})
	if c.ID() == "" || c.TTL() <= 0 {
		t.Fatalf("session id %q, ttl %v: want both", c.ID(), c.TTL())
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		_ = c.Close(ctx) // most cases ended it already
	})
	return c
}

// warm returns a kept session of the namespace, once the server grants in it.
func (s *suite) warm(t *testing.T, namespace string) driver.Session {
	t.Helper()
	c := s.kept(t, s.client(t), namespace)
	free(t, c, s.take(t, c, "user/warm"))
	return c
}

// patience is the ttl of sessions that should not expire: on a busy machine a renewal may be late by a second.
func (s *suite) patience() time.Duration { return max(s.ttl, 3*time.Second) }

// kept opens a session and renews it until the test ends.
func (s *suite) kept(t *testing.T, d driver.Driver, namespace string) driver.Session {
	t.Helper()
	c := s.openFor(t, d, namespace, s.patience())
	keep(t, c)
	return c
}

// keep renews the session until stop is called or the test ends.
func keep(t *testing.T, c driver.Session) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			calling, done := context.WithTimeout(ctx, c.TTL())
			_ = Renew(calling, c) // the case says what it expects
			done()
			select {
			case <-ctx.Done():
			case <-time.After(c.TTL() / 5):
			}
		}
	})
	stop = func() { cancel(); renewing.Wait() }
	t.Cleanup(stop)
	return stop
}

// recovered repeats do while the server says that it is recovering.
func (s *suite) recovered(t *testing.T, do func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if !errors.Is(err, driver.ErrRecovering) || time.Since(began) > 2*s.patience()+late {
			t.Fatal(err)
		}
	}
}

// try asks once for the keys, which must be sorted, under a new id. It waits for a recovering server, under the
// same id.
func (s *suite) try(t *testing.T, c driver.Session, keys ...string) []driver.Result {
	t.Helper()
	return s.tryAs(t, c, rand.Text(), keys...)
}

func (s *suite) tryAs(t *testing.T, c driver.Session, id string, keys ...string) (results []driver.Result) {
	t.Helper()
	s.recovered(t, func() (err error) {
		if results, err = c.TryAcquire(calling(t), id, Wants(keys...)); err != nil {
			return err
		}
		if len(results) != len(keys) {
			t.Fatalf("%d results for %d keys", len(results), len(keys))
		}
		for i, r := range results {
			if err := sound(keys[i], r); err != nil {
				return err
			}
		}
		return nil
	})
	return results
}

// sound returns what is wrong with a single result.
func sound(key string, r driver.Result) error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("key %s: %w", key, r.Err)
	case r.Token < 0, (r.Token > 0) == (r.Holder != nil):
		return fmt.Errorf("key %s: token %d and holder %v: want exactly one", key, r.Token, r.Holder)
	case r.Holder != nil && r.Holder.Key != key: // the session may be unknown for a moment
		return fmt.Errorf("key %s: holder %+v: want its key", key, *r.Holder)
	}
	return nil
}

// take acquires a key that must be free.
func (s *suite) take(t *testing.T, c driver.Session, key string) driver.Held {
	t.Helper()
	return s.takeAll(t, c, key)[0]
}

// takeAll acquires keys that must be free.
func (s *suite) takeAll(t *testing.T, c driver.Session, keys ...string) []driver.Held {
	t.Helper()
	held := make([]driver.Held, len(keys))
	for i, r := range s.try(t, c, keys...) {
		if r.Holder != nil {
			t.Fatalf("key %s: want it granted, it is held: %+v", keys[i], *r.Holder)
		}
		held[i] = driver.Held{Key: keys[i], Token: r.Token}
	}
	return held
}

// busy asks for a key that want must hold.
func (s *suite) busy(t *testing.T, c driver.Session, want driver.Held) {
	t.Helper()
	r := s.try(t, c, want.Key)[0]
	if r.Holder == nil {
		t.Fatalf("key %s: granted with token %d while it is held with token %d", want.Key, r.Token, want.Token)
	}
	if r.Holder.Token != want.Token {
		t.Errorf("key %s: held with token %d, want %d", want.Key, r.Holder.Token, want.Token)
	}
}

func free(t *testing.T, c driver.Session, held ...driver.Held) {
	t.Helper()
	if err := c.Release(calling(t), held); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// still asks Check about one key.
func still(t *testing.T, c driver.Session, held driver.Held) bool {
	t.Helper()
	ok, err := c.Check(calling(t), []driver.Held{held})
	if errors.Is(err, driver.ErrSessionEnded) {
		return false
	}
	if err != nil || len(ok) != 1 {
		t.Fatalf("check: %v, %v", ok, err)
	}
	return ok[0]
}

// check asks Check about keys.
func check(t *testing.T, c driver.Session, held []driver.Held) []bool {
	t.Helper()
	ok, err := c.Check(calling(t), held)
	if err != nil || len(ok) != len(held) {
		t.Fatalf("check of %d keys: %v, %v", len(held), ok, err)
	}
	return ok
}

// trusted is how long package locks trusts a session after a renewal was sent.
func (s *suite) trusted(c driver.Session, d driver.Driver) time.Duration {
	return c.TTL() - max(c.TTL()/100, 50*time.Millisecond) - d.Caps().TrustMargin
}

// expire ends the session at the server, by force if the harness can, else by not renewing it.
func (s *suite) expire(t *testing.T, c driver.Session) {
	t.Helper()
	if s.ExpireSession != nil {
		s.ExpireSession(t, c)
		return
	}
	time.Sleep(c.TTL() + late)
}
