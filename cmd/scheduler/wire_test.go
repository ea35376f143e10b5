package main

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

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
