package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
)

// A file that was deleted, or replaced, excludes nobody any more: others lock in another one. The next renewal says that the session has
// ended, and none begins on the handle.
func TestTheFileIsDeleted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	dsn := "file:" + file + "?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"
	d := sqllock.New(open(t, "sqlite", dsn), sqllock.SQLite, sqllock.Options{})
	s := session(t, d, time.Minute)
	take(t, s, "k")
	if err := lockstest.Renew(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	said := func(when string) {
		t.Helper()
		if err := lockstest.Renew(t.Context(), s); !errors.Is(err, driver.ErrSessionEnded) || !strings.Contains(err.Error(), "was deleted or replaced") {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute}); err == nil || !strings.Contains(err.Error(), "open the handle anew") {
			t.Errorf("%s: a session begins: %v", when, err)
		}
	}
	said("deleted")
	other := session(t, sqllock.New(open(t, "sqlite", dsn), sqllock.SQLite, sqllock.Options{}), time.Minute)
	take(t, other, "k")
	said("replaced")
}

// Each connection of a handle has a database in memory of its own: only one that has no more than one excludes its sessions.
func TestADatabaseInMemory(t *testing.T) {
	t.Parallel()
	for connections, fine := range map[int]bool{0: false, 1: true, 2: false} {
		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(connections)
		s, err := sqllock.New(db, sqllock.SQLite, sqllock.Options{}).Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "give it the path of a file") {
			t.Errorf("%d connections: %v", connections, err)
		}
		if err == nil {
			_ = s.Close(context.WithoutCancel(t.Context()))
		}
	}
}
