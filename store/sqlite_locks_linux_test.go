package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// What else a process does with a database that it has open leaves SQLite the locks that it has there: without them the next
// process that closes the database would remove the log of this one.
func TestLocksOutliveOtherStores(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "lockstep.db"), filepath.Join(dir, "link.db")
	first := open(t, store.SQLite, path, store.Options{})
	if err := first.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	locked := lockedFile(t, path)
	if !locked() {
		t.Fatal("SQLite has no lock on the database")
	}
	another := func(path string) error {
		st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
		if err != nil {
			return err
		}
		return st.Close()
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"another store", func() error { return another(path) }},
		{"another store through a link", func() error { return another(link) }},
		{"a look", func() error {
			st, err := store.OpenReadOnly(t.Context(), path, store.Options{})
			if err != nil {
				return err
			}
			return st.Close()
		}},
		{"a check", func() error { return sqlite.Check(path) }},
		{"the rights", func() error { return first.Sides().Admin.CheckRights(t.Context(), true) }},
	} {
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !locked() {
			t.Fatalf("after %s the lock is gone", c.name)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if locked() {
		t.Error("a closed store has its lock")
	}
}

// lockedFile is an open database whose locks can be read. It stays open: closing it would release them.
func lockedFile(t *testing.T, path string) (locked func() bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return func() bool {
		// A query by the open file (OFD) reports this process's locks, too.
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: sharedFirst, Len: sharedSize}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
			t.Fatal(err)
		}
		return lock.Type == unix.F_RDLCK
	}
}

// The bytes of a database that SQLite locks as long as it has it open with a log, see its os.h.
const (
	sharedFirst = 0x40000000 + 2
	sharedSize  = 510
)
