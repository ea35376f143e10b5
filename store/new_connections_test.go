package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A connection that a store opens later goes to the file that it opened first. Where that has lost its name there is none:
// it would make an empty database, or write the log of the first one over what is there now.
func TestLaterConnectionsOpenTheSameFile(t *testing.T) {
	for name, put := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			open := func(file string) (*store.Store, string) {
				path := filepath.Join(dir, file)
				st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
				if err == nil {
					err = st.Migrate(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = st.Close() })
				return st, path
			}
			backup, source := open("backup.db")
			if err := backup.Close(); err != nil {
				t.Fatal(err)
			}
			st, path := open("lockstep.db") // views have no connection yet
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			var before []byte
			if put {
				if err := os.Rename(source, path); err != nil {
					t.Fatal(err)
				}
				before, _ = os.ReadFile(path)
			}
			_, err := st.Sides().API.Overview(t.Context(), 10)
			if !errors.Is(err, jobs.ErrUnavailable) || strings.Count(err.Error(), "was deleted or replaced") != 1 || strings.Count(err.Error(), "unavailable") != 1 {
				t.Errorf("a view: %v", err)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			after, err := os.ReadFile(path)
			if put && string(after) != string(before) || !put && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("afterwards: %v, %d bytes, before %d", err, len(after), len(before))
			}
		})
	}
}
