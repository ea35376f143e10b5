package store

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Where a process closes connections, all of them too, the log stays: SQLite removes it when the last one closes, and it
// would look deleted.
func TestTheLogOutlivesEachConnection(t *testing.T) {
	for name, set := range map[string]func(*sql.DB){
		"none stays idle":   func(db *sql.DB) { db.SetMaxIdleConns(0) },
		"each is soon old":  func(db *sql.DB) { db.SetConnMaxLifetime(time.Nanosecond) },
		"all are closed":    func(db *sql.DB) { db.SetMaxIdleConns(0); db.SetMaxIdleConns(1) },
		"each is soon idle": func(db *sql.DB) { db.SetConnMaxIdleTime(time.Nanosecond) },
	} {
		t.Run(name, func(t *testing.T) {
			s, path := openFileStore(t)
			log, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			for _, replica := range []string{"a", "b", "c"} {
				for _, handle := range []*sql.DB{s.db.Pool, s.readers, s.vital, s.views} {
					db := handle
					set(db)
				}
				if _, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: replica}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Sides().API.Overview(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				if now, err := os.Stat(path + "-wal"); err != nil || !os.SameFile(log, now) {
					t.Fatalf("the log is another one: %v", err)
				}
			}
		})
	}
}

func openFileStore(t *testing.T) (s *Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "lockstep.db")
	s, err := Open(t.Context(), "sqlite", path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, path
}
