package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Replicas may run together if and only if they lock at the same place in the same way: these names are compared at the start.
func TestNameOfTheLockService(t *testing.T) {
	const (
		redis     = `driver: redis, redis: {mode: cluster, addrs: ["a:1", "b:2"]`
		sentinel  = `driver: redis, redis: {addrs: ["a:1", "b:2"], mode: sentinel, master_name: `
		zookeeper = `driver: zookeeper, zookeeper: {insecure: true, servers: ["a:1", "b:2"]`
		mysql     = `driver: mysql, mysql: {dsn: "u:p@tcp(a:1)/one"`
		mariadb   = `store: {driver: mysql, dsn: "u:p@tcp(a:1)/one"}`
	)
	lock := func(text string) string { return "lock: {" + text + "}}" }
	quorum := func(addrs ...string) string {
		return `driver: quorum, quorum: {nodes: [{addrs: ["` + strings.Join(addrs, `"]}, {addrs: ["`) + `"]}]`
	}
	for _, c := range []struct {
		name, one, other  string
		namespace, second string
		equal             bool
	}{
		{name: "redis: order of the addresses", one: lock(redis), other: lock(`driver: redis, redis: {mode: cluster, addrs: ["b:2", "a:1"]`), equal: true},
		{name: "redis: an address twice", one: lock(redis), other: lock(`driver: redis, redis: {mode: cluster, addrs: ["b:2", "a:1", "b:2"]`), equal: true},
		{name: "redis: addresses", one: lock(redis), other: lock(`driver: redis, redis: {mode: cluster, addrs: ["a:1", "b:3"]`)},
		{name: "redis: database", one: lock(`driver: redis, redis: {db: 1`), other: lock(`driver: redis, redis: {db: 2`)},
		{name: "redis: mode", one: lock(`driver: redis, redis: {mode: standalone`), other: lock(`driver: redis, redis: {mode: cluster`)},
		{name: "redis: same master", one: lock(sentinel + "m"), other: lock(sentinel + "m"), equal: true},
		{name: "redis: another master", one: lock(sentinel + "m"), other: lock(sentinel + "n")},
		{name: "redis: namespace", one: lock(redis), other: lock(redis), namespace: "prod", second: "test"},
		{name: "redis: name in the file", one: "name: prod\n" + lock(redis), other: lock(redis), namespace: "prod", second: "prod", equal: true},
		{name: "redis: user and password are no other place", one: lock(redis), other: lock(redis + ", username: somebody"), equal: true},
		{name: "zookeeper: order of the servers", one: lock(zookeeper), other: lock(`driver: zookeeper, zookeeper: {insecure: true, servers: ["b:2", "a:1"]`), equal: true},
		{name: "zookeeper: servers", one: lock(zookeeper), other: lock(`driver: zookeeper, zookeeper: {insecure: true, servers: ["a:1", "c:2"]`)},
		{name: "zookeeper: root", one: lock(zookeeper), other: lock(zookeeper + ", root: /elsewhere")},
		{name: "zookeeper: namespace", one: lock(zookeeper), other: lock(zookeeper), namespace: "prod", second: "test"},
		{name: "mysql: user and options are no other place", one: lock(mysql), other: lock(`driver: mysql, mysql: {dsn: "v:q@tcp(a:1)/one?timeout=1s"`), equal: true},
		{name: "mysql: address", one: lock(mysql), other: lock(`driver: mysql, mysql: {dsn: "u:p@tcp(a:2)/one"`)},
		{name: "mysql: database", one: lock(mysql), other: lock(`driver: mysql, mysql: {dsn: "u:p@tcp(a:1)/two"`)},
		{name: "mysql: mode", one: lock(mysql), other: lock(mysql + ", mode: row")},
		{name: "mysql: namespace", one: lock(mysql), other: lock(mysql), namespace: "prod", second: "test"},
		{name: "quorum: order of the servers", one: lock(quorum("a:1", "b:2", "c:3")), other: lock(quorum("c:3", "a:1", "b:2")), equal: true},
		{name: "quorum: servers", one: lock(quorum("a:1", "b:2", "c:3")), other: lock(quorum("a:1", "b:2", "c:4"))},
		{name: "quorum: more servers", one: lock(quorum("a:1", "b:2", "c:3")), other: lock(quorum("a:1", "b:2", "c:3", "d:4"))},
		{name: "quorum: database", one: lock(quorum("a:1", "b:2", "c:3")), other: lock(quorum("a:1", "b:2", "c:3") + ", db: 1")},
		{name: "quorum and redis", one: lock(quorum("a:1", "b:2", "c:3")), other: lock(`driver: redis, redis: {mode: cluster, addrs: ["a:1", "b:2", "c:3"]`)},
		{name: "redis and zookeeper", one: lock(`driver: redis, redis: {addrs: ["a:1"]`), other: lock(`driver: zookeeper, zookeeper: {insecure: true, servers: ["a:1"]`)},
		{name: "redis and mysql", one: lock(redis), other: lock(mysql)},
		{name: "redis and the store", one: lock(redis), other: ""},
		{name: "the store's own database, said or not", one: "", other: "lock: {driver: sqlite}", equal: true},
		{name: "the store's own database, said or not, on mysql", one: mariadb, other: mariadb + "\n" + lock(mysql), equal: true},
		{name: "the store's own database: name", one: "name: prod", other: "name: test"},
		{name: "the store's own database: mode of the locks of jobs", one: mariadb, other: mariadb + "\nlock: {mysql: {mode: row}}"},
		{name: "another database than the store's", one: mariadb, other: mariadb + "\n" + lock(`driver: mysql, mysql: {dsn: "u:p@tcp(a:1)/two"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, other := nameOf(t, c.one, c.namespace), nameOf(t, c.other, c.second)
			if (one == other) != c.equal {
				t.Errorf("equal: %v, want %v\n%s\n%s", one == other, c.equal, one, other)
			}
		})
	}
}

// A replica of a version that keeps locks in another way does not start beside this one, wherever its locks are: what
// replicas compare ends with the number of that way. A program that embeds the scheduler starts beside this one where both
// lock alike.
func TestFingerprintHasTheProtocol(t *testing.T) {
	t.Parallel()
	const mariadb = `store: {driver: mysql, dsn: "u:p@tcp(127.0.0.1:1)/one"}`
	for text, embedded := range map[string]func(users *locks.Locker) (string, scheduler.Options){
		"":                                       func(*locks.Locker) (string, scheduler.Options) { return "", scheduler.Options{} },
		"name: prod":                             func(*locks.Locker) (string, scheduler.Options) { return "prod", scheduler.Options{} },
		"replica: {workers: 2}":                  func(users *locks.Locker) (string, scheduler.Options) { return "", scheduler.Options{JobLocks: users} },
		mariadb:                                  func(users *locks.Locker) (string, scheduler.Options) { return "", scheduler.Options{JobLocks: users} },
		mariadb + "\nlock: {mysql: {mode: row}}": func(users *locks.Locker) (string, scheduler.Options) { return "", scheduler.Options{JobLocks: users} },
		`lock: {driver: redis, redis: {addrs: ["127.0.0.1:1"]}}`:           nil,
		`lock: {driver: zookeeper, zookeeper: {servers: ["127.0.0.1:1"]}}`: nil,
		`lock: {driver: mysql, mysql: {dsn: "u:p@tcp(127.0.0.1:1)/one"}}`:  nil,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "lockstep.db")
			st := migrated(t, "sqlite", file)
			if !strings.Contains(text, mariadb) {
				text += fmt.Sprintf("\nstore: {dsn: %q}", file)
			}
			c, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\njobs: {a: {command: [echo]}}\n"+text+"\n"), config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := &parts{store: st}
			t.Cleanup(func() { _ = p.close(context.Background()) })
			if p.service, err = lockService(c, "ns"); err != nil {
				t.Fatal(err)
			}
			if p.users, err = p.newLocker(t.Context(), c, locks.Options{}); err != nil {
				t.Fatal(err)
			}
			if !c.LockInStore() {
				p.locker = p.users
			}
			program, err := p.replica(c, time.Time{}, "", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			replicas := []*scheduler.Scheduler{program}
			if embedded != nil {
				name, o := embedded(p.users)
				beside, err := scheduler.New(st, nil, jobs.Set{Name: name}, o)
				if err != nil {
					t.Fatal(err)
				}
				replicas = append(replicas, beside)
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for _, s := range replicas {
				all.Go(func() {
					if err := s.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			var peers []ledger.Peer
			await.Until(t, "all have joined", func() bool {
				peers, err = st.Sides().Replica.Peers(t.Context())
				return err == nil && len(peers) == len(replicas) || t.Failed()
			})
			stop()
			all.Wait()
			for _, peer := range peers {
				if want := fmt.Sprintf("%s, lock protocol %d", p.service, driver.Protocol); peer.LockService != want {
					t.Errorf("a replica joined with %q, want %q", peer.LockService, want)
				}
			}
		})
	}
}

// A fingerprint fits into its column, however long the addresses are, and is still that of these addresses alone.
func TestLongFingerprints(t *testing.T) {
	at := func(last string) string {
		return fmt.Sprintf(`lock: {driver: redis, redis: {mode: cluster, addrs: ["%s.internal:1", "%[1]s.internal:%s"]}}`, strings.Repeat("x", 150), last)
	}
	one, other := nameOf(t, at("2"), "prod"), nameOf(t, at("3"), "prod")
	if len(scheduler.Fingerprint(one)) > 255 || one == other {
		t.Errorf("%d bytes, equal: %v\n%s\n%s", len(scheduler.Fingerprint(one)), one == other, one, other)
	}
}

func nameOf(t *testing.T, text, namespace string) string {
	t.Helper()
	c, err := config.LoadBytes("lockstep.yaml", fmt.Appendf(nil, "version: 1\n%s\n", text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name, err := lockService(c, namespace)
	if err != nil || name == "" {
		t.Fatalf("%q, %v", name, err)
	}
	return name
}
