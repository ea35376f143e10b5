package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A replica whose file was deleted stops: whoever opens the name anew knows nothing of it.
func TestADeletedFileEndsTheBeat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockstep.db")
	st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := st.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Beat(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, replaced := range []bool{false, true} {
		if replaced {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.Beat(t.Context(), session); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("replaced %v: a beat on a deleted file: %v", replaced, err)
		}
	}
}
