package quorumlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Two of five servers may be dead, three may not; what comes back after that is granted under a larger token.
func TestDeadServers(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	s := open(t, wire(t, group, quick))
	first := take(t, s, "a")
	group[0].Kill()
	group[3].Kill()
	renew(t, s)
	second := take(t, s, "b")
	lockstest.Holds(t, s, first, true)
	free(t, s, first)
	first = take(t, s, "a")

	group[4].Kill()
	await.Until(t, "renew says that no majority can be reached, and names the servers", func() bool {
		err := lockstest.Renew(t.Context(), s)
		return errors.Is(err, driver.ErrUnreachable) && strings.Contains(err.Error(), group[4].Addr)
	})
	await.Until(t, "it is known that nothing can be sent", func() bool {
		_, err := ask(t, s, driver.Want{Key: "c"})
		return errors.Is(err, driver.ErrUnreachable)
	})
	if _, err := s.Check(t.Context(), []driver.Held{second}); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("check without a majority: %v", err)
	}
	for _, i := range []int{0, 3, 4} {
		group[i].Start()
	}
	next := open(t, wire(t, group, Options{NodeTimeout: time.Second}))
	if _, err := ask(t, next, driver.Want{Key: "c"}); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("three of five have forgotten all: %v, want ErrRecovering", err)
	}
	if held := within(t, next, "a"); held.Token <= first.Token {
		t.Errorf("token %d after %d", held.Token, first.Token)
	}
}

// A server that was restarted without its data does not vote for one TTL: else b would have a majority while a relies on its own.
func TestARestartedServerDoesNotVote(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a, b := wire(t, group, quick), wire(t, group, Options{NodeTimeout: time.Second})
	holder, other := open(t, a), open(t, b)
	await.Until(t, "the session is installed on all servers", func() bool {
		renew(t, holder)
		holder.mu.Lock()
		defer holder.mu.Unlock()
		return holder.in(settled) == holder.everywhere()
	})
	a.reaches(0, 1)
	held := take(t, holder, "a")
	asked := time.Now()
	renew(t, holder)
	group[1].Kill()
	group[1].Start()
	a.reaches(0) // it does not hear of that, and cannot bring back what it holds
	await.Until(t, "the server has learnt the last token", func() bool {
		_ = lockstest.Renew(t.Context(), other)
		return client(t, group[1].Addr, nil).HGet(t.Context(), keysOf("n")[0], "synced").Val() == "1"
	})
	b.reaches(1, 2)
	await.Until(t, "it is said that too few vote", func() bool {
		r, err := askAs(t, other, "id", driver.Want{Key: "a"})
		if r.Token > 0 {
			t.Fatalf("two hold it: granted %v after the other's renewal", time.Since(asked))
		}
		return errors.Is(err, driver.ErrRecovering)
	})
	if _, err := other.Evict(t.Context(), "a", held.Token); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("evict: %v, want ErrRecovering", err)
	}
	var granted driver.Held
	await.Until(t, "the key is granted", func() bool {
		_ = lockstest.Renew(t.Context(), other)
		r, err := askAs(t, other, "id", driver.Want{Key: "a"})
		granted = driver.Held{Key: "a", Token: r.Token}
		return err == nil && r.Token > 0
	})
	if after := time.Since(asked); after < ttl-ttl/100 {
		t.Errorf("two hold it: granted %v after the other's renewal, which may be trusted for nearly %v", after, ttl)
	}
	if granted.Token <= held.Token {
		t.Errorf("token %d after %d", granted.Token, held.Token)
	}
}

// While the holder reaches a server that was restarted, it brings back what it holds there, also if each server is restarted in turn.
func TestRestartedInTurn(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	s, other := open(t, wire(t, group, quick)), open(t, wire(t, group, quick))
	held := take(t, s, "a")
	for i, srv := range group {
		srv.Kill()
		renew(t, s)
		srv.Start()
		await.Until(t, "it has the key again, and votes", func() bool {
			renew(t, s)
			renew(t, other)
			votes := client(t, srv.Addr, nil).HGet(t.Context(), keysOf("n")[0], "synced").Val() == "1"
			return votes && on(t, srv, "a") == 1
		})
		lockstest.Holds(t, s, held, true)
		if r, err := ask(t, other, driver.Want{Key: "a"}); err == nil && r.Token > 0 {
			t.Fatalf("granted to another one after %d restarts", i+1)
		}
	}
}
