package mistakes

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The steps that several of the tests take.

func redisClient(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// onRedis is a driver on the shared server, where no namespace of these tests was held before.
func onRedis(t *testing.T) driver.Driver {
	t.Helper()
	return redislock.NewWith(redisClient(t), redislock.Options{NoGracePeriod: true})
}

func onZooKeeper(t *testing.T) driver.Driver {
	t.Helper()
	return zklock.New([]string{servers.ZooKeeper(t)}, zklock.Options{})
}

// silent is a log of nothing: connections of the naive forms are cut.
type silent struct{}

func (silent) Printf(string, ...any) {}

// mysqlHandle is one on a database of the test's own.
func mysqlHandle(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sqllock.Open(dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const quiet = 30 * time.Second // a ttl in which no session of a test ends

func locker(t *testing.T, d driver.Driver, namespace string, ttl time.Duration) *locks.Locker {
	t.Helper()
	l, err := locks.New(d, locks.Options{Namespace: namespace, TTL: ttl, Owner: rand.Text()[:4]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// get acquires a key that is free, or will be.
func get(t *testing.T, l *locks.Locker, key string) *locks.Lease {
	t.Helper()
	leases, err := l.Acquire(t.Context(), locks.Request{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return leases[0]
}

// busy requires that another holds the key.
func busy(t *testing.T, l *locks.Locker, key string) {
	t.Helper()
	got, err := l.TryAcquire(t.Context(), locks.Request{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(got[0].Err, locks.ErrBusy) {
		t.Errorf("%s: %+v, want it busy", key, got[0])
		_ = got[0].Lease.Release(t.Context())
	}
}

// crashed is what a process leaves that acquires a key and dies: a session without renewals.
func crashed(t *testing.T, d driver.Driver, namespace, key string) driver.Held {
	t.Helper()
	s, err := d.Open(t.Context(), driver.Open{Namespace: namespace, TTL: time.Second, Owner: "crashed"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.TryAcquire(t.Context(), rand.Text(), []driver.Want{{Key: "user/" + key}})
	if err != nil || got[0].Token == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	return driver.Held{Key: "user/" + key, Token: got[0].Token}
}

// register is what a lock guards. It refuses a token that is smaller than the last one.
type register struct {
	last  locks.Token
	value string
}

func (r *register) write(token locks.Token, value string) bool {
	if token < r.last {
		return false
	}
	r.last, r.value = token, value
	return true
}
