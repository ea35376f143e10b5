package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// Replicas may run together if and only if they lock at the same place in the same way: fingerprints are compared at
// the start.
func TestFingerprint(t *testing.T) {
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
		{name: "another database than the store's", one: mariadb, other: mariadb + "\n" + lock(`driver: mysql, mysql: {dsn: "u:p@tcp(a:1)/two"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, other := fingerprintOf(t, c.one, c.namespace), fingerprintOf(t, c.other, c.second)
			if (one == other) != c.equal {
				t.Errorf("equal: %v, want %v\n%s\n%s", one == other, c.equal, one, other)
			}
		})
	}
}

// A replica of a version that keeps its locks in another way does not start beside this one: until protocol 2 there was no
// number.
func TestFingerprintHasTheProtocol(t *testing.T) {
	for _, l := range []string{`redis, redis: {addrs: ["a:1"]}`, `zookeeper, zookeeper: {insecure: true, servers: ["a:1"]}`, `mysql, mysql: {dsn: "u:p@tcp(a:1)/one"}`} {
		if f, number := fingerprintOf(t, "lock: {driver: "+l+"}", "prod"), fmt.Sprintf(", lock protocol %d", driver.Protocol); !strings.HasSuffix(f, number) {
			t.Errorf("%s does not end with %s", f, number)
		}
	}
	if f := fingerprintOf(t, "", "prod"); f != scheduler.StoreLocks {
		t.Errorf("the store's rows: %q, want %q: they have their own versions", f, scheduler.StoreLocks)
	}
}

// A fingerprint fits into its column, however long the addresses are, and is still that of these addresses alone.
func TestLongFingerprints(t *testing.T) {
	at := func(last string) string {
		return fmt.Sprintf(`lock: {driver: redis, redis: {mode: cluster, addrs: ["%s.internal:1", "%[1]s.internal:%s"]}}`, strings.Repeat("x", 150), last)
	}
	one, other := fingerprintOf(t, at("2"), "prod"), fingerprintOf(t, at("3"), "prod")
	if len(one) > 255 || one == other || !strings.Contains(one, "lock protocol") {
		t.Errorf("%d bytes, equal: %v\n%s\n%s", len(one), one == other, one, other)
	}
}

func fingerprintOf(t *testing.T, text, namespace string) string {
	t.Helper()
	c, err := config.LoadBytes("lockstep.yaml", fmt.Appendf(nil, "version: 1\n%s\n", text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fingerprint(c, namespace)
	if err != nil || f == "" {
		t.Fatalf("%q, %v", f, err)
	}
	return f
}

// validate shows the effective lock: the store's own database has no leases and no modes.
func TestSummaryOfTheLock(t *testing.T) {
	const mysql = `store: {driver: mysql, dsn: "u:p@tcp(a:1)/one"}`
	for text, want := range map[string]string{
		"":                                     "rows of the store's own database",
		mysql + "\nlock: {mysql: {mode: row}}": "rows of the store's own database",
		mysql + "\nlock: {mysql: {mode: row, dsn: \"u:p@tcp(a:1)/two\"}}":                                 "mysql (row)",
		`lock: {driver: zookeeper, zookeeper: {insecure: true, servers: ["a:1", "b:2"]}}`:                 "zookeeper a:1,b:2",
		`lock: {driver: redis, redis: {mode: cluster, addrs: ["a:1", "b:2"]}}`:                            "redis a:1,b:2",
		`lock: {driver: quorum, quorum: {nodes: [{addrs: ["a:1"]}, {addrs: ["b:2"]}, {addrs: ["c:3"]}]}}`: "quorum of a:1,b:2,c:3",
		`lock: {driver: mysql, mysql: {dsn: "u:p@tcp(a:1)/two"}, when_down: wait}`:                        "mysql (lease)",
	} {
		c, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\n"+text+"\n"), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := summarize(c, noon); err != nil || s.Lock != want {
			t.Errorf("%s: lock %q, %v, want %q", text, s.Lock, err, want)
		}
	}
}
