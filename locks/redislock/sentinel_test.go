package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func behind(set *servers.SentinelSet, dial dialer) *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: servers.MasterName, SentinelAddrs: set.Addrs(), SentinelPassword: "secret", Password: "secret",
		Dialer: dial, DialerRetries: 1, MaxRetries: -1,
	})
}

func TestSentinelConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		set := servers.NewSentinel(t, servers.Secure{Password: "secret"})
		admin := redis.NewClient(&redis.Options{Addr: set.Master.Addr, Password: "secret"})
		t.Cleanup(func() { _ = admin.Close() })
		aged(t, admin, 3)
		h := harness(admin, nil, func(dial dialer) redis.UniversalClient { return behind(set, dial) })
		h.Brief = true
		return h
	})
}

// The master is killed and a replica takes its place: for a ttl nothing is granted, then all goes
// on, and at no time do two hold one key.
func TestFailover(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	set := servers.NewSentinel(t, servers.Secure{Password: "secret"})
	locker := func(owner string) *locks.Locker {
		rdb := behind(set, nil)
		t.Cleanup(func() { _ = rdb.Close() })
		l, err := locks.New(New(rdb), locks.Options{TTL: ttl, Namespace: "failover", Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	try := func(l *locks.Locker, key string) (*locks.Lease, error) {
		got, err := l.TryAcquire(t.Context(), locks.Request{Key: key})
		if err != nil {
			return nil, err
		}
		return got[0].Lease, got[0].Err
	}
	patiently := func(l *locks.Locker, key string) (lease *locks.Lease) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); lease == nil; time.Sleep(20 * time.Millisecond) {
			var err error
			if lease, err = try(l, key); time.Now().After(end) {
				t.Fatalf("%s is not granted: %v", key, err)
			}
		}
		return lease
	}
	a, b := locker("a"), locker("b")
	mine, theirs := patiently(a, "mine"), patiently(b, "theirs")
	if _, err := try(b, "mine"); !errors.Is(err, locks.ErrBusy) {
		t.Fatalf("held by a: %v", err)
	}

	set.Master.Kill()
	var fresh *locks.Lease
	var recovering time.Time
	for end := time.Now().Add(60 * time.Second); fresh == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is granted after the failover")
		}
		if lease, _ := try(b, "mine"); lease != nil && mine.Check() == nil {
			t.Fatal("two hold one key")
		} else if lease != nil && lease.Token() <= mine.Token() {
			t.Errorf("token %d after %d", lease.Token(), mine.Token())
		}
		if lease, _ := try(a, "theirs"); lease != nil && theirs.Check() == nil {
			t.Fatal("two hold one key")
		}
		var err error
		if fresh, err = try(b, "fresh"); errors.Is(err, locks.ErrRecovering) && recovering.IsZero() {
			recovering = time.Now()
		}
	}
	if recovering.IsZero() {
		t.Error("no call returned ErrRecovering")
	} else if waited := time.Since(recovering); waited > ttl+5*time.Second {
		t.Errorf("the recovery took %v", waited)
	}
	if fresh.Token() <= max(mine.Token(), theirs.Token()) {
		t.Errorf("token %d after %d and %d", fresh.Token(), mine.Token(), theirs.Token())
	}
	t.Logf("what was held before: %v, %v", mine.Check(), theirs.Check())
}

func TestSentinelThatIsAway(t *testing.T) {
	t.Parallel()
	addr := deadAddress(t)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{addr}})
	defer rdb.Close()
	_, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "away", TTL: time.Second})
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(fmt.Sprint(err), addr) || !strings.Contains(err.Error(), "the master that Sentinel names") {
		t.Errorf("open: %v; want ErrUnreachable, the sentinels, and the master's name", err)
	}
}

// deadAddress has no listener.
func deadAddress(t *testing.T) string {
	t.Helper()
	srv := servers.NewRedis(t)
	srv.Kill()
	return srv.Addr
}
