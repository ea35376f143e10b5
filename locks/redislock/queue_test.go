package redislock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// queued takes a place behind the holder of a key.
func queued(t *testing.T, s driver.Session, w driver.Want) driver.Place {
	t.Helper()
	p := driver.Place{Acquisition: rand.Text(), Key: w.Key}
	got, err := s.Queue().Acquire(t.Context(), p.Acquisition, nil, []driver.Want{w})
	if err != nil || !got[0].Queued {
		t.Fatalf("%+v, %v; want it queued", got, err)
	}
	return p
}

// Who finds a key busy, or waits for it, learns how long its holder can have it without a renewal.
func TestBusyForHowLong(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a, b := begin(t, rdb, "how-long"), begin(t, rdb, "how-long")
	for _, w := range []driver.Want{{Key: "user/alone"}, {Key: "user/together", Shared: true}} {
		if got, err := a.TryAcquire(t.Context(), rand.Text(), []driver.Want{w}); err != nil || got[0].Token == 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		other := driver.Want{Key: w.Key}
		tried, err := b.TryAcquire(t.Context(), rand.Text(), []driver.Want{other})
		if err != nil {
			t.Fatal(err)
		}
		for how, h := range map[string]*driver.Info{"busy": tried[0].Holder, "queued": look(t, b, queued(t, b, other)).Holder} {
			if h == nil || h.Remaining <= 0 || h.Remaining > b.TTL() {
				t.Errorf("%s, %s: %+v, want it to say how much remains of %v", w.Key, how, h, b.TTL())
			}
		}
	}
}

// granted waits for the notification of a grant.
func granted(t *testing.T, s driver.Session, p driver.Place) driver.Held {
	t.Helper()
	for {
		select {
		case g := <-s.Queue().Granted():
			if g.Place == p {
				return driver.Held{Key: g.Key, Token: g.Token}
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no notification; look says %+v", look(t, s, p))
		}
	}
}

func look(t *testing.T, s driver.Session, p driver.Place) driver.Result {
	t.Helper()
	got, err := s.Queue().Look(t.Context(), []driver.Place{p})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func release(t *testing.T, s driver.Session, h driver.Held) {
	t.Helper()
	if err := s.Release(t.Context(), []driver.Held{h}); err != nil {
		t.Fatal(err)
	}
}

// After lost data those that waited are served in their order, whichever comes back first.
func TestPlacesAreBroughtBackWithTheirNumbers(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "places"
	holder, first, second := openFor(t, rdb, ns, ttl), openFor(t, rdb, ns, ttl), openFor(t, rdb, ns, ttl)
	recovered(t, "other", holder, first, second)
	held := lockstest.Grant(t, holder, "k")
	one, two := queued(t, first, driver.Want{Key: "k"}), queued(t, second, driver.Want{Key: "k"})

	must(t, rdb.FlushAll(t.Context()))
	if r, err := second.Queue().Acquire(t.Context(), rand.Text(), nil, lockstest.Wants("k")); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("a new place while old ones are brought back: %+v, %v; want ErrRecovering", r, err)
	}
	for _, s := range []driver.Session{second, first, holder} {
		renew(t, s)
	}
	if r, err := holder.Queue().Acquire(t.Context(), rand.Text(), nil, lockstest.Wants("k")); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("a new place behind those that were brought back: %+v, %v; want ErrRecovering", r, err)
	}
	release(t, holder, held) // nothing may be granted yet
	if r := look(t, first, one); !r.Queued {
		t.Errorf("while nothing is granted: %+v, want it queued", r)
	}
	await.Until(t, "the first place is granted", func() bool {
		renew(t, holder, first, second)
		if r := look(t, second, two); !r.Queued {
			t.Fatalf("the second: %+v, want it queued", r)
		}
		return look(t, first, one).Token > held.Token
	})
	next := granted(t, first, one)
	third := queued(t, holder, driver.Want{Key: "k"})
	release(t, first, next)
	last := granted(t, second, two)
	if r := look(t, holder, third); last.Token <= next.Token || !r.Queued {
		t.Errorf("token %d after %d; one that came later: %+v, want it queued", last.Token, next.Token, r)
	}
}

// However a key becomes free while nothing is granted, its first waiter gets it afterwards.
func TestNothingIsGrantedEarly(t *testing.T) {
	t.Parallel()
	for what, frees := range map[string]func(t *testing.T, holder, peer driver.Session){
		"closed": func(t *testing.T, holder, _ driver.Session) {
			if err := holder.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"abandoned": func(t *testing.T, holder, _ driver.Session) {
			if err := holder.Abandon(t.Context(), "theirs", []string{"k"}); err != nil {
				t.Error(err)
			}
		},
		"expired, and reaped": func(t *testing.T, holder, peer driver.Session) {
			time.Sleep(holder.TTL() + 100*time.Millisecond)
			renew(t, peer)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rdb := unused(t)
			holder, peer, waiter := openFor(t, rdb, "early", time.Second), begin(t, rdb, "early"), begin(t, rdb, "early")
			recovered(t, "other", holder, peer, waiter)
			if r := lockstest.Acquire(t, holder, "theirs", "k")[0]; r.Token == 0 {
				t.Fatalf("%+v", r)
			}
			p := queued(t, waiter, driver.Want{Key: "k"})
			must(t, rdb.FlushAll(t.Context()))
			renew(t, waiter, peer, holder)
			frees(t, holder, peer)
			if r := look(t, waiter, p); !r.Queued {
				t.Errorf("while nothing is granted: %+v, want it queued", r)
			}
			must(t, rdb.HSet(t.Context(), part("early", "state"), "until", 0))
			renew(t, peer)
			if r := look(t, waiter, p); r.Token == 0 {
				t.Errorf("afterwards: %+v, want it granted", r)
			}
		})
	}
}

// A key whose holder did not come back goes to the first that waited for it, and not to one that tries it first.
func TestPlacesBehindAForgottenHolder(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "forgotten"
	dead, b, c := begin(t, rdb, ns), begin(t, rdb, ns), begin(t, rdb, ns)
	held := lockstest.Grant(t, dead, "k")
	p := queued(t, b, driver.Want{Key: "k"})
	must(t, rdb.FlushAll(t.Context()))
	renew(t, c, b)
	must(t, rdb.HSet(t.Context(), part(ns, "state"), "until", 0))
	if r := lockstest.Acquire(t, c, "try", "k")[0]; r.Holder == nil || r.Holder.Session != b.ID() {
		t.Errorf("%+v, want it busy with what waited", r)
	}
	if next := granted(t, b, p); next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// must1 returns the answer to what a test asks the server.
func must1[T any](t *testing.T, cmd interface{ Result() (T, error) }) T {
	t.Helper()
	v, err := cmd.Result()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A grant of a place is brought back as what it is: also if it was published before the answer that it is queued, or found
// by Look.
func TestGrantsOfPlacesAreBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "grants"
	a, b := begin(t, rdb, ns), begin(t, rdb, ns)
	for name, learn := range map[string]func(driver.Place) driver.Held{
		"published": func(p driver.Place) driver.Held { return granted(t, b, p) },
		"looked":    func(p driver.Place) driver.Held { return driver.Held{Key: p.Key, Token: look(t, b, p).Token} },
	} {
		held := lockstest.Grant(t, a, name)
		p := queued(t, b, driver.Want{Key: name, Limit: 2})
		release(t, a, held)
		mine := learn(p)
		restarted(t, rdb, ns)
		must(t, rdb.Del(t.Context(), part(ns, "holders"), part(ns, "index"), part(ns, "places")))
		renew(t, a, b)
		lockstest.Holds(t, b, mine, true)
		if infos, err := a.List(t.Context(), name, "", 1); err != nil || len(infos) != 1 || infos[0].Limit != 2 || infos[0].Token != mine.Token {
			t.Errorf("%s: listed %+v, %v; want token %d and limit 2", name, infos, err, mine.Token)
		}
		must(t, rdb.HSet(t.Context(), part(ns, "state"), "until", 0))
		release(t, b, mine)
	}
}

// Holdings that an old snapshot has in place of later ones make room, and no others.
func TestHoldingsTogetherAreBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "together"
	a, b := begin(t, rdb, ns), begin(t, rdb, ns)
	take := func(s driver.Session, w driver.Want) driver.Held {
		t.Helper()
		got, err := s.TryAcquire(t.Context(), rand.Text(), []driver.Want{w})
		if err != nil || got[0].Token == 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		return driver.Held{Key: w.Key, Token: got[0].Token}
	}
	reader, two := driver.Want{Key: "shared", Shared: true}, driver.Want{Key: "two", Limit: 2}
	readers := []driver.Held{take(a, reader), take(b, reader)}
	permits := []driver.Held{take(a, two), take(b, two)}
	restarted(t, rdb, ns)
	// The snapshot is older: a session that has gone has the permit that a has now, and the shared key for itself.
	ofA := fmt.Sprintf("two %d", permits[0].Token)
	older := "1\ngone\nold\n1\n%s\n\n"
	must(t, rdb.HDel(t.Context(), part(ns, "holders"), "shared"),
		rdb.HSet(t.Context(), part(ns, "holders"), "shared", strings.Replace(older, "%s", "1", 1)),
		rdb.HSet(t.Context(), part(ns, "holders"), "two 0000000000000001", strings.Replace(older, "%s", "2", 1)),
		rdb.ZAdd(t.Context(), part(ns, "index"), redis.Z{Member: "kshared"}, redis.Z{Member: "ktwo 0000000000000001"}),
		rdb.HDel(t.Context(), part(ns, "holders"), ofA), rdb.ZRem(t.Context(), part(ns, "index"), "k"+ofA, "s"+a.ID()+" "+ofA))
	renew(t, a, b)
	for i, s := range []driver.Session{a, b} {
		lockstest.Holds(t, s, readers[i], true)
		lockstest.Holds(t, s, permits[i], true)
	}
	if count := must1(t, rdb.HGet(t.Context(), part(ns, "holders"), "two")); count != "*2 2" {
		t.Errorf("two is held by %q, want 2 of 2", count)
	}
	must(t, rdb.HSet(t.Context(), part(ns, "state"), "until", 0))
	if got, err := a.TryAcquire(t.Context(), rand.Text(), []driver.Want{two}); err != nil || got[0].Holder == nil {
		t.Errorf("a third permit of two: %+v, %v; want busy", got, err)
	}
	release(t, a, readers[0])
	release(t, b, readers[1])
	release(t, a, permits[0])
	take(a, driver.Want{Key: "shared"})
	take(a, two)
}

// Nothing is left of what was held, waited for and given up.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "left"
	a, b := begin(t, rdb, ns), begin(t, rdb, ns)
	for _, kind := range []driver.Want{{Key: "k"}, {Key: "k", Shared: true}, {Key: "k", Limit: 2}} {
		held := lockstest.Grant(t, a, "k")
		p, given := queued(t, b, kind), queued(t, b, driver.Want{Key: "k", Limit: 7})
		if err := b.Abandon(t.Context(), given.Acquisition, []string{"k"}); err != nil {
			t.Fatal(err)
		}
		release(t, a, held)
		release(t, b, granted(t, b, p))
	}
	held := lockstest.Grant(t, a, "k")
	queued(t, b, driver.Want{Key: "k", Shared: true})
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, a, held)
	own := begin(t, rdb, ns)
	lockstest.Grant(t, own, "own")
	queued(t, own, driver.Want{Key: "own"})
	if err := own.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, rdb.ZAdd(t.Context(), part(ns, "abandoned"), redis.Z{Member: "x y", Score: 1}))
	marks := must1(t, rdb.ZRange(t.Context(), part(ns, "abandoned"), 0, -1))
	if len(marks) != 4 {
		t.Errorf("marks of what was abandoned: %q", marks)
	}
	for _, m := range marks {
		must(t, rdb.ZAdd(t.Context(), part(ns, "abandoned"), redis.Z{Member: m, Score: 1}))
	}
	renew(t, a)
	for _, name := range []string{"holders", "index", "queue", "places", "abandoned"} {
		if n := must1(t, rdb.Exists(t.Context(), part(ns, name))); n != 0 {
			t.Errorf("%s is left", name)
		}
	}
}

// A renewal reaps a dead holder, and tells those behind it.
func TestARenewalHandsOverWhatADeadSessionHeld(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "reaps"
	dead, b, c := begin(t, rdb, ns), begin(t, rdb, ns), begin(t, rdb, ns)
	held := lockstest.Grant(t, dead, "k")
	p := queued(t, b, driver.Want{Key: "k"})
	expired(t, rdb, ns, dead)
	renew(t, c)
	if next := granted(t, b, p); next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// A user without channels waits too: a grant is found by Look.
func TestWithoutChannels(t *testing.T) {
	t.Parallel()
	admin := client(t, servers.NewRedis(t).Addr)
	limited(t, admin)
	for _, forbidden := range []string{"resetchannels", "-publish", "-subscribe"} {
		must(t, admin.Do(t.Context(), "ACL", "SETUSER", "lockstep", "&*", "+publish", "+subscribe"),
			admin.Do(t.Context(), "ACL", "SETUSER", "lockstep", forbidden))
		rdb := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "lockstep", Password: "limited"})
		t.Cleanup(func() { _ = rdb.Close() })
		d := NewWith(rdb, Options{NoGracePeriod: true})
		s, err := d.Open(t.Context(), driver.Open{Namespace: forbidden, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		held := lockstest.Grant(t, s, "k")
		p := queued(t, s, driver.Want{Key: "k"})
		release(t, s, held)
		if r := look(t, s, p); r.Token <= held.Token {
			t.Errorf("%s: %+v, want it granted", forbidden, r)
		}
		if note := d.Caps().Note; !strings.Contains(note, "+publish") {
			t.Errorf("%s: %q", forbidden, note)
		}
	}
}
