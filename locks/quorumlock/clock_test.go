package quorumlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Tokens grow from majority to majority, whatever the clocks say, also when a server forgets the largest.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	group := append([]*servers.RedisServer{clock.NewRedis(t)}, start(t, 4)...)
	a := wire(t, group, quick)
	s := open(t, a)
	last := driver.Held{Key: "a"}
	next := func(what string, servers ...int) {
		t.Helper()
		a.reaches(servers...)
		held := within(t, s, "a")
		if held.Token <= last.Token {
			t.Errorf("%s: token %d after %d", what, held.Token, last.Token)
		}
		last = held
		a.reaches(0, 1, 2, 3, 4)
		await.Until(t, "free", func() bool { return s.Release(t.Context(), []driver.Held{held}) == nil })
		renew(t, s)
	}
	next("the first", 0, 1, 2)
	if err := clock.Step(time.Hour); err != nil {
		t.Fatal(err)
	}
	renew(t, s) // its session there has expired
	next("with a server an hour ahead", 0, 1, 2)
	if ahead := time.UnixMicro(int64(last.Token)); time.Until(ahead) < 50*time.Minute {
		t.Fatalf("the token is of %v: the clock was not stepped", ahead)
	}
	for _, some := range [][]int{{2, 3, 4}, {0, 3, 4}, {1, 2, 3}, {0, 2, 4}, {1, 3, 4}} {
		next(fmt.Sprint("by ", some), some...)
	}
	next("before it is forgotten", 0, 1, 2)
	group[2].Kill()
	group[2].Start()
	other := wire(t, group, quick)
	other.reaches(2, 3, 4)
	successor := open(t, other)
	began := time.Now()
	await.Until(t, "time to have passed", func() bool {
		_ = lockstest.Renew(t.Context(), successor)
		r, err := askAs(t, successor, "id", driver.Want{Key: "a"})
		if err == nil && r.Token <= last.Token {
			t.Fatalf("token %d after %d: a majority of which one has forgotten it granted it", r.Token, last.Token)
		}
		return time.Since(began) > 2*ttl
	})
	other.reaches(1, 2, 3, 4) // a majority of those that have not
	await.Until(t, "granted", func() bool {
		_ = lockstest.Renew(t.Context(), successor)
		r, err := askAs(t, successor, "id", driver.Want{Key: "a"})
		if err == nil && r.Token > 0 && r.Token <= last.Token {
			t.Fatalf("token %d after %d", r.Token, last.Token)
		}
		return r.Token > 0
	})
}

// The clock of one server of five may step: it forgets whom it voted for, and four others do not.
func TestASteppedClock(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	group := append(start(t, 4), clock.NewRedis(t))
	sessions := []*session{open(t, wire(t, group, quick)), open(t, wire(t, group, quick)), open(t, wire(t, group, quick))}
	last := driver.Held{Key: "a"}
	for n, step := range []time.Duration{time.Hour, 0, -time.Hour, 0, 5 * time.Second, -5 * time.Second, 0} {
		holder := sessions[n%len(sessions)]
		held := within(t, holder, "a")
		if held.Token <= last.Token {
			t.Errorf("token %d after %d", held.Token, last.Token)
		}
		last = held
		if err := clock.Step(step); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < ttl/2; {
			for i, s := range sessions {
				renew(t, s)
				if r, err := ask(t, s, driver.Want{Key: "a"}); err == nil && r.Token > 0 {
					t.Fatalf("after a step to %v, %d was granted what %d holds", step, i, n%len(sessions))
				}
			}
		}
		lockstest.Holds(t, holder, held, true)
		free(t, holder, held)
	}
}
