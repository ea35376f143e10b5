package memlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func open(t *testing.T, service *memlock.Service, ttl time.Duration) driver.Session {
	t.Helper()
	c, err := service.Open(t.Context(), driver.Open{Namespace: "ns", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calls are all that reach the service.
func calls(ctx context.Context, service *memlock.Service, c driver.Session, held driver.Held) map[string]error {
	_, opened := service.Open(ctx, driver.Open{Namespace: "ns", TTL: time.Minute})
	_, acquired := c.TryAcquire(ctx, "other", lockstest.Wants("b"))
	_, checked := c.Check(ctx, []driver.Held{held})
	_, listed := c.List(ctx, "", "", 10)
	_, evicted := c.Evict(ctx, held.Key, held.Token)
	return map[string]error{
		"open": opened, "renew": lockstest.Renew(ctx, c), "acquire": acquired, "release": c.Release(ctx, []driver.Held{held}),
		"check": checked, "list": listed, "evict": evicted, "close": c.Close(ctx),
	}
}

// A call that does not reach the service says so and does nothing.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		a := open(t, service, 10*time.Second)
		held := lockstest.Grant(t, a, "a")
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for call, err := range calls(done, service, a, held) {
			if !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a context that is done: %v", call, err)
			}
		}
		service.Stop()
		for call, err := range calls(t.Context(), service, a, held) {
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%s while it is stopped: %v", call, err)
			}
		}
		service.Start()
		lockstest.Holds(t, a, held, true)
		if infos, err := a.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 {
			t.Errorf("%+v, %v; want a alone", infos, err)
		}

		service.Stop()
		time.Sleep(10 * time.Second)
		service.Start()
		if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("renew: %v; it has not been renewed for a ttl", err)
		}
	})
}

// A session lives for its ttl after the last renewal, and not a moment longer, whatever is asked first.
func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		var sessions []driver.Session
		var held []driver.Held
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			c := open(t, service, 10*time.Second)
			sessions, held = append(sessions, c), append(held, lockstest.Grant(t, c, key))
		}
		other := open(t, service, time.Hour)
		time.Sleep(5 * time.Second)
		for _, c := range sessions {
			if err := lockstest.Renew(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Second - 1)
		for i, c := range sessions {
			lockstest.Holds(t, c, held[i], true)
			lockstest.Holds(t, other, held[i], false)
		}
		time.Sleep(1)
		lockstest.Holds(t, sessions[0], held[0], false)
		if err := lockstest.Renew(t.Context(), sessions[1]); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("renew: %v, want ErrSessionEnded", err)
		}
		lockstest.Grant(t, other, held[2].Key)
		if ok, err := other.Evict(t.Context(), held[3].Key, held[3].Token); ok || err != nil {
			t.Errorf("evict: %v, %v; it is free", ok, err)
		}
		if infos, err := other.List(t.Context(), "e", "", 10); err != nil || len(infos) != 0 {
			t.Errorf("%+v, %v; want no holder", infos, err)
		}
		service.Expire(sessions[0].ID()) // it is over already
		service.Expire("unknown")
	})
}

// After a restart nothing is granted until every session that it forgot must have ended, also one that an earlier
// restart forgot.
func TestRestartTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		forgotten := open(t, service, 10*time.Second)
		lockstest.Grant(t, forgotten, "a")
		service.Restart()
		if err := lockstest.Renew(t.Context(), forgotten); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("renew: %v, want ErrSessionEnded", err)
		}
		open(t, service, time.Second)
		service.Restart()
		c := open(t, service, time.Hour)
		time.Sleep(10*time.Second - 1)
		if got := lockstest.Acquire(t, c, "id", "a"); !errors.Is(got[0].Err, driver.ErrRecovering) {
			t.Errorf("%+v, want it recovering", got[0])
		}
		time.Sleep(1)
		lockstest.Grant(t, c, "a")
	})
}

// Tokens grow over a restart, also where no time has passed.
func TestTokensGrowOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		a := open(t, service, time.Second)
		lockstest.Grant(t, a, "a")
		last := lockstest.Grant(t, a, "b")
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		service.Restart()
		if next := lockstest.Grant(t, open(t, service, time.Second), "b"); next.Token <= last.Token {
			t.Errorf("token %d after %d", next.Token, last.Token)
		}
	})
}
