package redislock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// unused is a client of a server that is known to be new.
func unused(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: servers.NewRedis(t).Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// begin opens a session there, which is granted keys at once.
func begin(t *testing.T, rdb redis.UniversalClient, namespace string) driver.Session {
	t.Helper()
	s, err := NewWith(rdb, Options{NoGracePeriod: true}).Open(t.Context(), driver.Open{Namespace: namespace, TTL: time.Minute, Owner: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// must is for what the tests do to the server.
func must(t *testing.T, cmds ...redis.Cmder) {
	t.Helper()
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			t.Fatal(cmd, err)
		}
	}
}

func part(namespace, name string) string { return "{lockstep:" + namespace + "}:" + name }

// restarted makes the state look as a server finds it that was started again from its snapshot.
func restarted(t *testing.T, rdb *redis.Client, namespace string) {
	t.Helper()
	must(t, rdb.HSet(t.Context(), part(namespace, "state"), "run", "another", "proof", "of another"))
}

// expired makes the server see that the time of a session is over.
func expired(t *testing.T, rdb redis.UniversalClient, namespace string, s driver.Session) {
	t.Helper()
	expires(t, rdb, namespace, s, 1)
}

// expires sets when a session expires, in µs of the server's clock.
func expires(t *testing.T, rdb redis.UniversalClient, namespace string, s driver.Session, at int64) {
	t.Helper()
	must(t, rdb.ZAdd(t.Context(), part(namespace, "sessions"), redis.Z{Member: s.ID(), Score: float64(at)}), rdb.HSet(t.Context(), part(namespace, "state"), "@"+s.ID(), at))
}

// owned holds which keys the server counts as whose.
func owned(t *testing.T, rdb *redis.Client, namespace, when string, want ...string) {
	t.Helper()
	got, err := rdb.ZRangeByLex(t.Context(), part(namespace, "index"), &redis.ZRangeBy{Min: "[s", Max: "(t"}).Result()
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "s")
	}
	if err != nil || len(got) != len(want) || len(want) == 1 && got[0] != want[0] {
		t.Errorf("%s the server counts as owned %q, %v; want %q", when, got, err, want)
	}
}

// Whatever a session asks first of a server that has lost data, it brings back what it holds.
func TestTheFirstCallBringsBack(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	calls := map[string]func(s driver.Session, other driver.Held) error{
		"renew": func(s driver.Session, _ driver.Held) error { return lockstest.Renew(t.Context(), s) },
		"check": func(s driver.Session, other driver.Held) error {
			_, err := s.Check(t.Context(), []driver.Held{other})
			return err
		},
		"acquire": func(s driver.Session, _ driver.Held) error {
			_, err := s.TryAcquire(t.Context(), "early", lockstest.Wants("new"))
			return err
		},
		"evict": func(s driver.Session, other driver.Held) error {
			_, err := s.Evict(t.Context(), other.Key, other.Token)
			return err
		},
		"release": func(s driver.Session, other driver.Held) error { return s.Release(t.Context(), []driver.Held{other}) },
	}
	for name, call := range calls {
		for what, lose := range map[string]func(namespace string, s driver.Session){
			"all": func(string, driver.Session) { must(t, rdb.FlushAll(t.Context())) },
			"what is newer than a snapshot": func(namespace string, s driver.Session) {
				restarted(t, rdb, namespace)
				must(t, rdb.HDel(t.Context(), part(namespace, "state"), "=mine"))
			},
		} {
			if name == "release" && what != "all" {
				continue // it grants and says nothing: the next call finds out
			}
			namespace := name + " " + what
			s := begin(t, rdb, namespace)
			mine, other := lockstest.Grant(t, s, "mine"), lockstest.Grant(t, s, "other")
			lose(namespace, s)
			if err := call(s, other); err != nil && !errors.Is(err, driver.ErrRecovering) {
				t.Errorf("%s after the loss of %s: %v", name, what, err)
			}
			if there := rdb.HExists(t.Context(), part(namespace, "holders"), mine.Key); there.Err() != nil || !there.Val() {
				t.Errorf("%s after the loss of %s brings nothing back: %v", name, what, there.Err())
			}
			must(t, rdb.FlushAll(t.Context()))
		}
	}
}

// Nothing is granted for as long as the longest session may trust what it holds, as soon as it is known.
func TestRecoveryLastsForTheLongestTTL(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	long, short := openFor(t, rdb, "ttls", time.Minute), openFor(t, rdb, "ttls", 15*time.Second)
	lasts := func(when string, want time.Duration) {
		t.Helper()
		began, err := rdb.HGet(t.Context(), part("ttls", "state"), "began").Int64()
		until, err2 := rdb.HGet(t.Context(), part("ttls", "state"), "until").Int64()
		if got := time.Duration(until-began) * time.Microsecond; err != nil || err2 != nil || got != want {
			t.Errorf("%s nothing is granted for %v, want %v (%v, %v)", when, got, want, err, err2)
		}
	}
	restarted(t, rdb, "ttls")
	renew(t, short)
	lasts("found by the short one, where the long one is known,", time.Minute)
	must(t, rdb.FlushAll(t.Context()))
	renew(t, short)
	lasts("found by the short one, where nothing is known,", 15*time.Second)
	renew(t, long)
	lasts("after the long one has come back", time.Minute)
	must(t, rdb.FlushAll(t.Context()))
	renew(t, long, short)
	lasts("found by the long one", time.Minute)
}

// A session that returns when keys are granted again is lost, however long its own ttl is: other sessions may have its keys.
func TestSessionThatReturnsAfterTheGracePeriodIsLost(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a := begin(t, rdb, "patient")
	lockstest.Grant(t, a, "k")
	must(t, rdb.FlushAll(t.Context()))
	b := open(t, rdb, "patient")
	if got := recovered(t, "k", b); got.Token == 0 {
		t.Fatalf("%+v", got)
	}
	if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew: %v, want ErrSessionEnded", err)
	}
}

// A session that was evicted and has not heard of it brings its key back: in whatever order, it is the later holder's.
func TestWhatIsBroughtBackIsTheLaterHolders(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	for _, first := range []string{"early", "late"} {
		a, b := begin(t, rdb, first), begin(t, rdb, first)
		early := lockstest.Grant(t, a, "k")
		if ok, err := b.Evict(t.Context(), "k", early.Token); !ok || err != nil {
			t.Fatal(ok, err)
		}
		late := lockstest.Grant(t, b, "k")
		must(t, rdb.FlushAll(t.Context()))
		if first == "early" {
			renew(t, a, b)
		} else {
			renew(t, b, a)
		}
		owned(t, rdb, first, first+" first:", b.ID()+" k")
		if first == "late" { // a has noticed, and does not reassert it after the release of b
			if err := b.Release(t.Context(), []driver.Held{late}); err != nil {
				t.Fatal(err)
			}
			must(t, rdb.FlushAll(t.Context()))
			renew(t, a, b)
			owned(t, rdb, first, "given back:")
			continue
		}
		lockstest.Holds(t, a, early, false)
		lockstest.Holds(t, b, late, true)
	}
}

// Where a session is over, none of its calls takes, frees or confirms anything: each says that it is lost.
func TestALostSessionIsReported(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	b := begin(t, rdb, "over")
	theirs := lockstest.Grant(t, b, "theirs")
	for name, call := range map[string]func(s driver.Session, mine driver.Held) error{
		"renew": func(s driver.Session, _ driver.Held) error { return lockstest.Renew(t.Context(), s) },
		"check": func(s driver.Session, mine driver.Held) error {
			_, err := s.Check(t.Context(), []driver.Held{mine})
			return err
		},
		"acquire of what is free": func(s driver.Session, _ driver.Held) error {
			_, err := s.TryAcquire(t.Context(), "late", lockstest.Wants("free"))
			return err
		},
		"acquire of what is held": func(s driver.Session, _ driver.Held) error {
			_, err := s.TryAcquire(t.Context(), "late", lockstest.Wants("theirs"))
			return err
		},
		"evict": func(s driver.Session, _ driver.Held) error {
			_, err := s.Evict(t.Context(), theirs.Key, theirs.Token)
			return err
		},
	} {
		s := begin(t, rdb, "over")
		mine := lockstest.Grant(t, s, name)
		expired(t, rdb, "over", s)
		if err := call(s, mine); !errors.Is(err, driver.ErrSessionEnded) {
			t.Errorf("%s: %v, want ErrSessionEnded", name, err)
		}
		lockstest.Holds(t, b, theirs, true)
		infos, err := b.List(t.Context(), "", "", 10)
		if err != nil || len(infos) != 1 || infos[0].Key != "theirs" {
			t.Errorf("after %s held are %+v, %v; want theirs alone", name, infos, err)
		}
	}
}

// A server that has been up for as long as the ttl, to the second that it counts in, may have forgotten a session of that
// ttl: it waits.
func TestAServerAsOldAsTheTTLWaits(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.Redis(t))
	uptime := func() (seconds int) {
		t.Helper()
		_, text, _ := strings.Cut(rdb.Info(t.Context(), "server").Val(), "uptime_in_seconds:")
		if _, err := fmt.Sscan(text, &seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	for {
		up := uptime()
		s := openFor(t, rdb, fmt.Sprint("as-old-", up), time.Duration(up-1)*time.Second)
		if uptime() == up {
			refuses(t, s, "k")
			return
		}
	}
}

// A key that was taken away stays away, and what else the session holds is brought back, though one check asked for all.
func TestWhatWasTakenAwayIsNotBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a, b := begin(t, rdb, "evicted"), begin(t, rdb, "evicted")
	held := []driver.Held{lockstest.Grant(t, a, "k1"), lockstest.Grant(t, a, "k2"), lockstest.Grant(t, a, "k3")}
	if ok, err := b.Evict(t.Context(), "k2", held[1].Token); !ok || err != nil {
		t.Fatal(ok, err)
	}
	check := func(when string) {
		t.Helper()
		still, err := a.Check(t.Context(), held)
		if want := []bool{true, false, true}; err != nil || !slices.Equal(still, want) {
			t.Errorf("%s held %v, %v; want %v", when, still, err, want)
		}
	}
	check("taken away:")
	must(t, rdb.FlushAll(t.Context()))
	renew(t, a)
	check("brought back:")
}

// A session that has come back and has not heard so asks again: that is no second time, nor too late. If it has expired since,
// it is lost.
func TestComingBackTwice(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a := begin(t, rdb, "twice")
	mine := lockstest.Grant(t, a, "k")
	must(t, rdb.FlushAll(t.Context()))
	again := func() error {
		_, err := a.(*session).reassert(t.Context())
		return err
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	must(t, rdb.HSet(t.Context(), part("twice", "state"), "until", 0)) // keys are granted again
	if err := again(); err != nil {
		t.Errorf("asked again: %v", err)
	}
	lockstest.Holds(t, a, mine, true)
	expired(t, rdb, "twice", a)
	if err := again(); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("expired: %v, want ErrSessionEnded", err)
	}
}

// A state that another run of the server wrote is not that of a new namespace, though nothing says that it was used.
func TestAStateOfAnotherRunIsNotNew(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	if err := begin(t, rdb, "used").Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted(t, rdb, "used")
	must(t, rdb.ScriptFlush(t.Context()))
	refuses(t, begin(t, rdb, "used"), "k")
}

// Without INFO it is unknown whether the server was promoted: then nothing is granted at once.
func TestInfoForbiddenOnANewServer(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	rdb.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-info")
	blind := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "blind", Password: "pw"})
	defer blind.Close()
	s := begin(t, blind, "blind")
	refuses(t, s, "k")
	says(t, s, "the server was started again, has failed over or has lost data a short time ago, and may not know of all locks")
}

// A token is no lower than the server's clock in µs, whatever the last one was: it also says since when a key is held that
// was brought back.
func TestTokensKeepUpWithTheClock(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	s := begin(t, rdb, "clock")
	must(t, rdb.HSet(t.Context(), part("clock", "state"), "token", 1))
	began := time.Now()
	mine := lockstest.Grant(t, s, "k")
	if early := began.Add(-time.Second).UnixMicro(); int64(mine.Token) < early {
		t.Errorf("token %d, want at least %d", mine.Token, early)
	}
	must(t, rdb.FlushAll(t.Context()))
	renew(t, s)
	if infos, err := s.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Since.Before(began.Add(-time.Second)) {
		t.Errorf("listed: %+v, %v; want it held since %v", infos, err, began)
	}
}
