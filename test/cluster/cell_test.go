package cluster

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const (
	sessionTTL   = 10 * time.Second
	drainTimeout = 20 * time.Second
)

// cell is one pair of store and lock service.
type cell struct {
	name string
	// open starts what the cell needs and returns the store's dialect and DSN, and the lock section.
	open func(t *testing.T, dir string) (dialect, dsn, lock string)
}

var cells = []cell{
	{"sqlite, sqlite", func(_ *testing.T, dir string) (string, string, string) {
		return "sqlite", filepath.Join(dir, "lockstep.db"), `{driver: sqlite, ttl: 10s}`
	}},
	{"mysql, redis", func(t *testing.T, _ string) (string, string, string) {
		return "mysql", servers.MySQL(t), fmt.Sprintf(`{driver: redis, ttl: 10s, redis: {addrs: [%q]}}`, servers.Redis(t))
	}},
	{"mysql, zookeeper", func(t *testing.T, _ string) (string, string, string) {
		return "mysql", servers.MySQL(t), fmt.Sprintf(
			`{driver: zookeeper, ttl: 10s, zookeeper: {servers: [%q], root: /%s, session_timeout: 10s}}`, servers.ZooKeeper(t), "cluster")
	}},
	// The lock has another database: in the store's one a guard would be a row
	// locked in the deciding transaction, and the lock would never be called.
	{"mysql, mysql lease", func(t *testing.T, _ string) (string, string, string) {
		return "mysql", servers.MySQL(t), fmt.Sprintf(`{driver: mysql, ttl: 10s, mysql: {dsn: %q, mode: lease}}`, servers.MySQL(t))
	}},
	{"mysql, mysql row", func(t *testing.T, _ string) (string, string, string) {
		return "mysql", servers.MySQL(t), fmt.Sprintf(`{driver: mysql, ttl: 10s, mysql: {dsn: %q, mode: row}}`, servers.MySQL(t))
	}},
}

// fixture is a cell that is set up: a configuration, a store to read, and where its work shows.
type fixture struct {
	dir     string
	config  string // file
	db      *sql.DB
	ticks   string // the file to which the job of every second appends its key
	shells  string // the file to which tasks run by exec append theirs
	release string // long tasks wait until this file exists
	pulse   *pulse // of the machine, while the test runs
}

// setUp writes a configuration of one job a second and of pools for requests (web), commands
// (shell), and commands that take long, of which those in keep stay lost and those in again are
// tried again.
func setUp(t *testing.T, c cell, web string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir()}
	f.config = filepath.Join(f.dir, "lockstep.yaml")
	f.ticks, f.shells, f.release = filepath.Join(f.dir, "ticks"), filepath.Join(f.dir, "shells"), filepath.Join(f.dir, "release")
	dialect, dsn, lock := c.open(t, f.dir)
	f.pulse = startPulse(t, f.dir)

	db, err := sql.Open(dialect, dsn)
	if err != nil {
		t.Fatal(err)
	}
	f.db = db
	t.Cleanup(func() {
		if t.Failed() {
			f.logOpen(t)
		}
		_ = db.Close()
	})

	// Processes of a killed replica may outlive it: they end with the folder.
	wait := strconv.Quote(fmt.Sprintf("while [ -d '%s' ] && [ ! -e '%s' ]; do sleep 0.2; done", f.dir, f.release))
	note := func(file string) string {
		return strconv.Quote(fmt.Sprintf("printf '%%s\\n' \"$LOCKSTEP_IDEMPOTENCY_KEY\" >> '%s'", file))
	}
	text := fmt.Sprintf(`version: 1
replica: {session_ttl: %v, drain_timeout: %v, workers: 64}
store: {driver: %s, dsn: %q}
lock: %s
pools:
  web: {workers: 8, http: {method: POST, url: %q, timeout: 10s}}
  shell: {workers: 2, command: [/bin/sh, -c, %s]}
  keep: {workers: 1, on_lost: fail, command: [/bin/sh, -c, %s]}
  again: {workers: 2, on_lost: retry, command: [/bin/sh, -c, %s]}
jobs:
  tick:
    schedule: "* * * * * *"
    concurrency: allow
    command: [/bin/sh, -c, %s]
`, sessionTTL, drainTimeout, dialect, dsn, lock, web, note(f.shells), wait, wait, note(f.ticks))
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}
