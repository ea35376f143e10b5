package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rival "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// waitFor waits for a key, and returns its release.
type waitFor func(ctx context.Context, key string) (release func() error, err error)

// way is one way to wait for a lock at a server. It can be opened in another process, by its name.
type way struct {
	name string
	ours func(tb testing.TB, addr string) driver.Driver // nil: another library
	open func(tb testing.TB, addr string) waitFor       // one client, with its own connections
}

// pause is how long other libraries wait between two tries.
const pause = 10 * time.Millisecond

var ways = []way{
	{name: "**redislock**, Lockstep", ours: func(tb testing.TB, addr string) driver.Driver { return redislock.New(redisClient(tb, addr)) }},
	{name: "bsm/redislock", open: func(tb testing.TB, addr string) waitFor {
		client := rival.New(redisClient(tb, addr))
		return func(ctx context.Context, key string) (func() error, error) {
			lock, err := client.Obtain(ctx, "bsm:"+key, leaseTime, &rival.Options{RetryStrategy: rival.LinearBackoff(pause)})
			return func() error { return lock.Release(ctx) }, err
		}
	}},
	{name: "redsync", open: func(tb testing.TB, addr string) waitFor {
		rs := redsync.New(goredis.NewPool(redisClient(tb, addr)))
		return func(ctx context.Context, key string) (func() error, error) {
			mutex := rs.NewMutex("redsync:"+key, redsync.WithExpiry(leaseTime), redsync.WithTries(1_000_000), redsync.WithRetryDelay(pause))
			err := mutex.LockContext(ctx)
			return func() error { _, err := mutex.UnlockContext(ctx); return err }, err
		}
	}},
	{name: "**zklock**, Lockstep", ours: func(_ testing.TB, addr string) driver.Driver {
		return zklock.New([]string{addr}, zklock.Options{})
	}},
	{name: "go-zookeeper's zk.Lock", open: func(tb testing.TB, addr string) waitFor {
		conn := zkConn(tb, addr)
		return func(_ context.Context, key string) (func() error, error) {
			lock := zk.NewLock(conn, "/rival/"+key, everybody)
			return lock.Unlock, lock.Lock()
		}
	}},
	{name: "**sqllock lease** on MariaDB, Lockstep", ours: func(tb testing.TB, addr string) driver.Driver {
		return sqllock.New(openMySQL(tb, addr), sqllock.MySQL, sqllock.Options{})
	}},
	{name: "**sqllock row** on MariaDB, Lockstep", ours: func(tb testing.TB, addr string) driver.Driver {
		db := openMySQL(tb, addr)
		db.SetMaxOpenConns(100)
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	}},
	{name: "MariaDB: GET_LOCK", open: func(tb testing.TB, addr string) waitFor {
		db := openMySQL(tb, addr)
		db.SetMaxOpenConns(100)
		db.SetMaxIdleConns(100)
		return func(ctx context.Context, key string) (func() error, error) { return getLock(ctx, db, key) }
	}},
	{name: "**sqllock** on SQLite, Lockstep", ours: func(tb testing.TB, addr string) driver.Driver {
		return sqllock.New(openSQLite(tb, addr), sqllock.SQLite, sqllock.Options{})
	}},
}

// bareHandOver is a list with one element, which who has the key has taken out: what a hand-over costs on Redis at least. Nothing
// ends it when its holder dies.
var bareHandOver = way{name: "Redis: BLPOP, RPUSH", open: func(tb testing.TB, addr string) waitFor {
	rdb := redisClient(tb, addr)
	fill := redis.NewScript("if redis.call('SET', KEYS[2], 1, 'NX') then redis.call('RPUSH', KEYS[1], 1) end")
	return func(ctx context.Context, key string) (func() error, error) {
		key = "bare:{" + key + "}"
		if err := fill.Run(ctx, rdb, []string{key, key + ":filled"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		err := rdb.BLPop(ctx, 0, key).Err()
		return func() error { return rdb.RPush(ctx, key, 1).Err() }, err
	}
}}

// onQuorum waits by asking again: without order.
var onQuorum = way{name: quorumName, ours: func(tb testing.TB, addrs string) driver.Driver {
	var clients []redis.UniversalClient
	for addr := range strings.SplitSeq(addrs, ",") {
		clients = append(clients, redisClient(tb, addr))
	}
	return quorumlock.New(clients, quorumlock.Options{NoGracePeriod: true})
}}

func wayOf(tb testing.TB, name string) way {
	tb.Helper()
	for _, w := range append(ways, bareHandOver, onQuorum) {
		if w.name == name {
			return w
		}
	}
	tb.Fatalf("no way %q", name)
	return way{}
}

// client opens one client: a Locker of its own, or another library's.
func (w way) client(tb testing.TB, addr string) waitFor {
	tb.Helper()
	if w.ours == nil {
		return w.open(tb, addr)
	}
	return acquiring(newLocker(tb, w.ours(tb, addr), "waiting"))
}

func acquiring(l *locks.Locker) waitFor {
	return func(ctx context.Context, key string) (func() error, error) {
		leases, err := l.Acquire(ctx, locks.Request{Key: key})
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(ctx, leases...) }, nil
	}
}

// address is where a way finds its server.
func (w way) address(tb testing.TB) string {
	tb.Helper()
	switch w.name {
	case "**redislock**, Lockstep", "bsm/redislock", "redsync", bareHandOver.name:
		return servers.Redis(tb)
	case "**zklock**, Lockstep", "go-zookeeper's zk.Lock":
		return servers.ZooKeeper(tb)
	case quorumName:
		var addrs []string
		for range 5 {
			addrs = append(addrs, servers.NewRedis(tb).Addr)
		}
		return strings.Join(addrs, ",")
	case "**sqllock** on SQLite, Lockstep":
		return filepath.Join(tb.TempDir(), "locks.db")
	}
	return servers.MySQL(tb)
}

// inProcess is memlock with one service for all its Lockers.
func inProcess(tb testing.TB, clients int) []waitFor {
	tb.Helper()
	service := memlock.New()
	all := make([]waitFor, clients)
	for i := range all {
		all[i] = acquiring(newLocker(tb, service, "waiting"))
	}
	return all
}

func redisClient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 128})
	tb.Cleanup(func() { rdb.Close() })
	return rdb
}

func zkConn(tb testing.TB, addr string) *zk.Conn {
	tb.Helper()
	conn, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	for _, path := range []string{"/raw", "/rival"} {
		if _, err := conn.Create(path, nil, 0, everybody); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			tb.Fatal(err)
		}
	}
	return conn
}

// getLock keeps a connection for as long as the lock is held, as GET_LOCK wants it.
func getLock(ctx context.Context, db *sql.DB, key string) (func() error, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	if err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", key).Scan(&got); err == nil && got.Int64 != 1 {
		err = errHeld
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("GET_LOCK: %w", err), conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", key)
		return errors.Join(err, conn.Close())
	}, nil
}
