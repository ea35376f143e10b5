package store

import (
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// The Stores that a process has on one file tell each other when a transaction ends.
func TestStoresOfAFileTellEachOtherOfEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	of := func() sqlkit.Ends {
		return migrated(t, "sqlite", file, Options{}).db.Dialect.(sqlkit.SQLite).Ends //nolint:forcetypeassert // it is one
	}
	if one, two := of(), of(); one == nil || one != two {
		t.Error("they do not")
	}
}
