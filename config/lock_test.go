package config_test

import (
	"strings"
	"testing"
	"time"
)

// A lock on ZooKeeper lives as long as its session: either of the two times sets both.
func TestZooKeeperHasOneTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"{driver: zookeeper}":                                                10 * time.Second,
		"{driver: zookeeper, ttl: 7s}":                                       7 * time.Second,
		"{driver: zookeeper, zookeeper: {session_timeout: 8s}}":              8 * time.Second,
		"{driver: zookeeper, ttl: 9s, zookeeper: {session_timeout: 9000ms}}": 9 * time.Second,
	} {
		lock := load(t, "lock: "+text).Lock
		if lock.TTL != want || lock.ZooKeeper.SessionTimeout != want {
			t.Errorf("%s: ttl %v, session timeout %v, want %v", text, lock.TTL, lock.ZooKeeper.SessionTimeout, want)
		}
	}
	// With another driver it has no effect.
	if lock := load(t, "lock: {driver: redis, ttl: 7s, zookeeper: {session_timeout: 8s}}").Lock; lock.TTL != 7*time.Second {
		t.Errorf("ttl %v", lock.TTL)
	}
}

// Settings without effect are reported at their position, unless they have the default.
func TestLockSettingsWithoutEffect(t *testing.T) {
	const mysql = `store: {driver: mysql, dsn: "u:p@tcp(db:3306)/a"}` + "\n"
	for _, c := range []struct {
		text    string
		inStore bool
		want    []string // paths of warnings
	}{
		{"lock: {ttl: 20s}", true, nil},
		{"lock: {ttl: 20m, driver: sqlite, when_down: wait}", true, []string{"lock.ttl", "lock.when_down"}},
		{mysql + "lock: {mysql: {mode: row}}", true, nil},
		{mysql + `lock: {ttl: 5s, driver: mysql, mysql: {mode: row, dsn: "u:p@tcp(db:3306)/a"}}`, true, nil},
		{"lock: {ttl: 10s, when_down: store, mysql: {mode: lease}}", true, nil},
		{mysql + `lock: {ttl: 5s, when_down: wait, driver: mysql, mysql: {mode: row, dsn: "u:p@tcp(db:3306)/b"}}`, false, nil},
		{"name: a\nlock: {driver: redis, ttl: 5s, when_down: wait}", false, nil},
	} {
		loaded := load(t, "jobs: {a: {command: [echo]}}\n"+c.text)
		var got []string
		for _, w := range loaded.Warnings {
			got = append(got, w.Path)
			if w.Line < 3 || w.Column < 2 || !strings.Contains(w.Problem, "the store's own database") && !strings.Contains(w.Problem, "is long") {
				t.Errorf("%s: %v", c.text, w)
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: warnings about %v, want %v", c.text, got, c.want)
		}
		if loaded.LockInStore() != c.inStore {
			t.Errorf("%s: in the store: %v", c.text, loaded.LockInStore())
		}
	}
}
