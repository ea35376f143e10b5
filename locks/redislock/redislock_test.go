package redislock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	os.Exit(servers.Main(m))
}

const ttl = 2 * time.Second

// client connects to a server that has been up for long enough to believe that a namespace is new.
func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	return clientAfter(t, addr, 4)
}

func clientAfter(t *testing.T, addr string, uptimeSeconds int) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	aged(t, rdb, uptimeSeconds)
	return rdb
}

// aged waits until the server has been up for long enough.
func aged(t *testing.T, rdb redis.UniversalClient, uptimeSeconds int) {
	t.Helper()
	uptime := regexp.MustCompile(`uptime_in_seconds:(\d+)`)
	await.Until(t, "the server is older than the ttl", func() bool {
		m := uptime.FindStringSubmatch(rdb.Info(t.Context(), "server").Val())
		if m == nil {
			return false
		}
		seconds, _ := strconv.Atoi(m[1])
		return seconds >= uptimeSeconds
	})
}

func open(t *testing.T, rdb redis.UniversalClient, namespace string) driver.Session {
	t.Helper()
	return openFor(t, rdb, namespace, ttl)
}

func openFor(t *testing.T, rdb redis.UniversalClient, namespace string, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := New(rdb).Open(t.Context(), driver.Open{Namespace: namespace, TTL: ttl, Owner: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func renew(t *testing.T, sessions ...driver.Session) {
	t.Helper()
	for _, s := range sessions {
		if err := lockstest.Renew(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScriptsAreOneCallAndBusyWritesNothing(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a, b := open(t, rdb, "calls"), open(t, rdb, "calls")
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	count := func(f func()) map[string]int {
		rdb.ConfigResetStat(t.Context())
		f()
		stats := map[string]int{}
		for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`).FindAllStringSubmatch(rdb.Info(t.Context(), "commandstats").Val(), -1) {
			stats[m[1]], _ = strconv.Atoi(m[2])
		}
		return stats
	}
	var held []driver.Held
	take := func() {
		held = nil
		for i, r := range lockstest.Acquire(t, a, "one", keys...) {
			held = append(held, driver.Held{Key: keys[i], Token: r.Token})
		}
	}
	steps := []struct {
		name string
		f    func()
	}{
		{"acquire", take},
		{"busy", func() { lockstest.Acquire(t, b, "two", keys...) }},
		{"renew", func() { renew(t, a) }},
		{"check", func() { _, _ = a.Check(t.Context(), held) }},
		{"release", func() { _ = a.Release(t.Context(), held) }},
	}
	for _, step := range steps { // the first round teaches the server the scripts
		step.f()
	}
	for _, step := range steps {
		got := count(step.f)
		if got["evalsha"] != 1 || got["eval"] != 0 {
			t.Errorf("%s of 100 keys: %v", step.name, got)
		}
		if (step.name == "busy" || step.name == "check") && got["hset"]+got["zadd"]+got["hdel"]+got["zrem"] > 0 {
			t.Errorf("%s wrote: %v", step.name, got)
		}
	}
}

func TestNothingStaysBehind(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.Redis(t))
	a := open(t, rdb, "residue")
	left := func() (names []string) {
		keys, _, err := rdb.Scan(t.Context(), 0, "{lockstep:residue}*", 10000).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			names = append(names, strings.TrimPrefix(k, "{lockstep:residue}:"))
		}
		return names
	}
	h := lockstest.Grant(t, a, "k")
	if len(left()) != 5 {
		t.Errorf("while held: %v", left())
	}
	if err := a.Release(t.Context(), []driver.Held{h}); err != nil {
		t.Fatal(err)
	}
	if len(left()) != 3 {
		t.Errorf("after release: %v", left())
	}
	lockstest.Grant(t, a, "k")
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"state"}, left()); diff != "" {
		t.Errorf("after Close: %s", diff)
	}
	// A session that is not closed is reaped by the others.
	dead := open(t, rdb, "residue")
	lockstest.Grant(t, dead, "k1")
	b := open(t, rdb, "residue")
	await.Until(t, "the other's renewals sweep up", func() bool { renew(t, b); return len(left()) == 3 })
}

func TestExpiredSession(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.Redis(t))
	a, b := open(t, rdb, "expiry"), open(t, rdb, "expiry")
	mine := lockstest.Grant(t, a, "k")
	var theirs driver.Held
	await.Until(t, "the key of the expired session is free", func() bool {
		renew(t, b)
		got := lockstest.Acquire(t, b, "b", "k")
		theirs = driver.Held{Key: "k", Token: got[0].Token}
		return theirs.Token > 0
	})
	if theirs.Token <= mine.Token {
		t.Errorf("token %d after %d", theirs.Token, mine.Token)
	}
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Errorf("release of what was lost: %v", err)
	}
	if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew: %v, want ErrSessionEnded", err)
	}
	lockstest.Holds(t, b, theirs, true)
}

func TestEvictionPolicyIsRefused(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").Addr)
	_, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "evict", TTL: ttl})
	if err == nil || !strings.Contains(err.Error(), "noeviction or to one of volatile-*") {
		t.Fatalf("open: %v, want an error that says what to set", err)
	}
	if err := New(rdb).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("check: %v, want an error that names noeviction", err)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	if err := New(rdb).Check(t.Context()); err != nil {
		t.Errorf("check without a limit: %v", err)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "100mb")
	rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
	if err := New(rdb).Check(t.Context()); err != nil || rdb.DBSize(t.Context()).Val() != 0 {
		t.Errorf("check: %v, and it has left keys: %v", err, rdb.Keys(t.Context(), "*"))
	}
	lockstest.Grant(t, open(t, rdb, "evict"), "k")
}

// Policies volatile-* drop keys with a TTL, and no key of a lock has one: locks stay while others' keys are evicted.
func TestVolatilePoliciesSpareLocks(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			rdb := client(t, servers.NewRedis(t, "--maxmemory", "6mb", "--maxmemory-policy", policy).Addr)
			if err := New(rdb).Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, err := NewWith(rdb, Options{NoGracePeriod: true}).Open(t.Context(), driver.Open{Namespace: "spared", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			var held []driver.Held
			for i := range 50 {
				held = append(held, driver.Held{Key: fmt.Sprint(i), Token: lockstest.Grant(t, s, fmt.Sprint(i)).Token})
			}
			for _, key := range keysOf("spared") {
				if ttl := rdb.TTL(t.Context(), key).Val(); ttl >= 0 {
					t.Errorf("%s has a TTL of %v", key, ttl)
				}
			}
			for i := range 2000 { // 20 MB
				if err := rdb.Set(t.Context(), fmt.Sprint("others-", i), strings.Repeat("x", 10<<10), time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if n := rdb.Info(t.Context(), "stats").Val(); !strings.Contains(n, "evicted_keys:") || strings.Contains(n, "evicted_keys:0\r") {
				t.Fatal("the server has evicted nothing")
			}
			still, err := s.Check(t.Context(), held)
			if err != nil || slices.Contains(still, false) {
				t.Errorf("after evictions: %v, %v", still, err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t)
	rdb := client(t, srv.Addr)
	s := open(t, rdb, "away")
	srv.Kill()
	start := time.Now()
	_, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "away", TTL: ttl})
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), srv.Addr) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("open: %v; want ErrUnreachable with address and cause", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("open took %v", took)
	}
	await.Until(t, "a server that is gone is unreachable", func() bool {
		_, err := s.TryAcquire(t.Context(), "x", lockstest.Wants("k"))
		return errors.Is(err, driver.ErrUnreachable)
	})
}

func TestContextIsObeyed(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t)
	rdb := client(t, srv.Addr)
	s := open(t, rdb, "frozen")
	srv.Pause()
	await.Until(t, "the server stands still", func() bool { // the signal takes a moment
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return lockstest.Renew(ctx, s) != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.TryAcquire(ctx, "x", lockstest.Wants("k"))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("acquire: %v; want the deadline, and nothing known", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	srv.Continue()
	first := lockstest.Acquire(t, s, "x", "k") // the same id settles it
	if first[0].Token == 0 {
		t.Errorf("again: %+v", first)
	}
}

func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.Redis(t))
	dead, b := open(t, rdb, "step"), open(t, rdb, "step")
	lockstest.Grant(t, dead, "k")
	// What a server sees after its clock went back by an hour.
	expires(t, rdb, "step", dead, time.Now().Add(time.Hour).UnixMicro())
	await.Until(t, "the key is free", func() bool { renew(t, b); return lockstest.Acquire(t, b, "b", "k")[0].Token > 0 })
}

// When the server's clock goes back, a recovery that is over does not begin again, and one that is
// under way does not last for as long as the step.
func TestClockStepsBackAfterLostData(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a := open(t, rdb, "step")
	back := func() { // as a server sees it whose clock went back by an hour
		for _, field := range []string{"began", "until"} {
			if at, err := rdb.HGet(t.Context(), "{lockstep:step}:state", field).Int64(); err != nil {
				t.Fatal(err)
			} else if at > 0 {
				rdb.HIncrBy(t.Context(), "{lockstep:step}:state", field, time.Hour.Microseconds())
			}
		}
	}
	rdb.FlushAll(t.Context())
	refuses(t, a, "k")
	back()
	for range 3 {
		refuses(t, a, "k")
	}
	held := driver.Held{Key: "k", Token: recovered(t, "k", a).Token}
	back()
	lockstest.Grant(t, a, "k2")
	if ok, err := a.Evict(t.Context(), held.Key, held.Token); !ok || err != nil {
		t.Errorf("evict: %t, %v", ok, err)
	}
}

func TestListAndEvict(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.Redis(t))
	dead, a := open(t, rdb, "list"), open(t, rdb, "list")
	gone := lockstest.Acquire(t, dead, "d", "a/0", "a/2", "a/4", "a/6")
	renew(t, a)
	expired(t, rdb, "list", dead) // not swept up
	got := lockstest.Acquire(t, a, "a", "a/1", "a/3", "a/5", "b/1")
	var listed []string
	for after := ""; ; {
		page, err := a.List(t.Context(), "a/", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page {
			if info.Owner != "tester" || info.Meta != "meta of "+info.Key || info.Session != a.ID() || time.Since(info.Since) > time.Minute {
				t.Errorf("info: %+v", info)
			}
			listed, after = append(listed, info.Key), info.Key
		}
		if len(page) < 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"a/1", "a/3", "a/5"}, listed); diff != "" {
		t.Error(diff)
	}
	if ok, err := a.Evict(t.Context(), "a/0", gone[0].Token); ok || err != nil {
		t.Errorf("evict of a free key: %t, %v", ok, err)
	}
	b := open(t, rdb, "list")
	if ok, err := b.Evict(t.Context(), "a/1", got[0].Token-1); ok || err != nil {
		t.Errorf("evict under another token: %t, %v", ok, err)
	}
	if ok, err := b.Evict(t.Context(), "a/1", got[0].Token); !ok || err != nil {
		t.Errorf("evict: %t, %v", ok, err)
	}
	lockstest.Holds(t, a, driver.Held{Key: "a/1", Token: got[0].Token}, false)
}
