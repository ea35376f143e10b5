package scenarios

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// backend is one way to keep locks. A new one is one more row of backends.
type backend struct {
	name    string
	serve   func(t *testing.T) (address string)                                    // of a server that runs; other processes may connect to it, too
	connect func(address string) (d driver.Driver, closes func() error, err error) // one client
	nowhere string                                                                 // an address without a server, for Caps
	few     int                                                                    // clients in runs of the kinds beside exclusive; 0: as many as there
	spread  int                                                                    // Lockers that many clients are spread over; 0: 8
}

var backends = []backend{
	{name: "memory", serve: newMemory, connect: memory},
	{name: "redis", nowhere: "127.0.0.1:1", serve: func(t *testing.T) string { return servers.Redis(t) }, connect: onRedis, few: 200},
	{name: "quorum", nowhere: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", serve: newQuorum, connect: onQuorum, few: 50, spread: 2},
	{name: "zookeeper", nowhere: "127.0.0.1:1", serve: func(t *testing.T) string { return servers.ZooKeeper(t) }, connect: onZooKeeper, few: 100},
	{name: "mysql-lease", nowhere: "u@tcp(127.0.0.1:1)/d", serve: func(t *testing.T) string { return servers.MySQL(t) }, connect: onMySQL(sqllock.Lease), few: 100},
	{name: "mysql-row", nowhere: "u@tcp(127.0.0.1:1)/d", serve: func(t *testing.T) string { return servers.MySQL(t) }, connect: onMySQL(sqllock.Row), few: 50, spread: 2},
	{name: "sqlite", nowhere: ":memory:", serve: newFile, connect: onSQLite, few: 100},
}

func newMemory(*testing.T) string {
	address := rand.Text()
	memories.Store(address, memlock.New())
	return address
}

// memories are the services of this process, by address.
var memories sync.Map

func memory(address string) (driver.Driver, func() error, error) {
	service, ok := memories.Load(address)
	if !ok {
		return nil, nil, errors.New("the service is of another process")
	}
	return service.(*memlock.Service), func() error { return nil }, nil
}

func onRedis(address string) (driver.Driver, func() error, error) {
	rdb := redis.NewClient(&redis.Options{Addr: address})
	// No namespace of these tests was held on this server before.
	return redislock.NewWith(rdb, redislock.Options{NoGracePeriod: true}), rdb.Close, nil
}

func newQuorum(t *testing.T) string {
	return strings.Join([]string{servers.NewRedis(t).Addr, servers.NewRedis(t).Addr, servers.NewRedis(t).Addr}, ",")
}

func onQuorum(addresses string) (driver.Driver, func() error, error) {
	var clients []redis.UniversalClient
	for address := range strings.SplitSeq(addresses, ",") {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: address}))
	}
	return quorumlock.New(clients, quorumlock.Options{NodeTimeout: callTimeout, NoGracePeriod: true}), func() error {
		var errs []error
		for _, rdb := range clients {
			errs = append(errs, rdb.Close())
		}
		return errors.Join(errs...)
	}, nil
}

func onZooKeeper(address string) (driver.Driver, func() error, error) {
	return zklock.New([]string{address}, zklock.Options{}), func() error { return nil }, nil
}

func onMySQL(mode sqllock.Mode) func(address string) (driver.Driver, func() error, error) {
	return func(dsn string) (driver.Driver, func() error, error) {
		db, err := sqllock.Open(dsn, nil)
		if err != nil {
			return nil, nil, err
		}
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode}), db.Close, nil
	}
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "locks.db") }

func onSQLite(file string) (driver.Driver, func() error, error) {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(%d)&_txlock=immediate", file, callTimeout.Milliseconds()))
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(4) // one is to read while another waits for its turn to write
	db.SetMaxIdleConns(4)
	return sqllock.New(db, sqllock.SQLite, sqllock.Options{}), db.Close, nil
}

// caps are what the backend says of itself, which needs no server.
func (b backend) caps(t *testing.T) locks.Caps {
	t.Helper()
	address := b.nowhere
	if address == "" {
		address = newMemory(t)
	}
	d, closes, err := b.connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	return d.Caps()
}

// kind is a way to hold keys, and whether a backend has it.
type kind struct {
	name string
	has  func(c locks.Caps) bool
}

func always(locks.Caps) bool { return true }

var (
	exclusive = kind{"exclusive", always}
	shared    = kind{"shared", func(c locks.Caps) bool { return c.Shared }}
	semaphore = kind{"semaphore", func(c locks.Caps) bool { return c.Limit }}
	reentrant = kind{"reentrant", always}
	several   = kind{"several keys", always}
	kinds     = []kind{exclusive, shared, semaphore, reentrant, several}
)

// one has kinds of which a client at a time holds what it asks for with alone.
var one = []kind{exclusive, reentrant, several}

func alone(k kind, key string, client int) []locks.Request {
	switch k.name {
	case reentrant.name:
		return []locks.Request{{Key: key, Owner: fmt.Sprint("client ", client)}}
	case several.name:
		return []locks.Request{{Key: key}, {Key: key + "-too"}}
	}
	return []locks.Request{{Key: key}}
}

// limit is that of semaphores.
const limit = 4

// site is a server with one backend, for one run of a scenario.
type site struct {
	backend
	address   string
	namespace string
	kind      kind
	caps      locks.Caps
}

// each runs a scenario on every backend, with those of the kinds that it has.
func each(t *testing.T, kinds []kind, run func(t *testing.T, s site)) {
	t.Helper()
	eachBackend(t, func(t *testing.T, s site) {
		for _, k := range kinds {
			if !k.has(s.caps) {
				continue
			}
			s := s
			s.kind, s.namespace = k, rand.Text()
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				run(t, s)
			})
		}
	})
}

// eachBackend runs what concerns all kinds at once.
func eachBackend(t *testing.T, run func(t *testing.T, s site)) {
	t.Helper()
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			run(t, site{backend: b, address: b.serve(t), namespace: rand.Text(), caps: b.caps(t)})
		})
	}
}

// ttl is long enough for the busiest machine, where no session is to end, and callTimeout for its calls.
const (
	ttl         = 20 * time.Second
	callTimeout = 10 * time.Second
)

// lockers makes n Lockers that share nothing but the server; beyond 16 they share a client, for the sake of the server.
func (s site) lockers(t *testing.T, n int) []*locks.Locker {
	t.Helper()
	all := make([]*locks.Locker, n)
	var d driver.Driver
	for i := range all {
		if n <= 16 || i == 0 {
			d = s.client(t)
		}
		all[i] = s.on(t, d, fmt.Sprintf("locker %d", i))
	}
	return all
}

func (s site) locker(t *testing.T, owner string) *locks.Locker {
	t.Helper()
	return s.on(t, s.client(t), owner)
}

func (s site) client(t *testing.T) driver.Driver {
	t.Helper()
	d, closes, err := s.connect(s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closes() })
	return d
}

func (s site) on(t *testing.T, d driver.Driver, owner string) *locks.Locker {
	t.Helper()
	l, err := locks.New(d, locks.Options{Namespace: s.namespace, Owner: owner, TTL: ttl, CallTimeout: callTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	// A backend gives an opening up after a time of its own, in which a busy machine may not be done.
	await.Until(t, owner+" has a session", func() bool { err = l.Connect(t.Context()); return err == nil })
	return l
}

// crowded makes the Lockers that many clients are spread over.
func (s site) crowded(t *testing.T) []*locks.Locker {
	t.Helper()
	return s.lockers(t, cmp.Or(s.spread, 8))
}

// clients is how many take part in a run whose whole size is n.
func (s site) clients(n int) int {
	if s.kind.name != exclusive.name && s.few > 0 {
		return min(n, s.few)
	}
	return n
}
