package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The error of a full disk names the file that cannot grow, and what to do.
func TestAFullDiskIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), "sqlite", path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.autocommit(t.Context(), "bound", func(t *tx) error {
		var pages int
		_, err := t.One("PRAGMA max_page_count = 1", nil, &pages) // as many as it has
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		_, err = s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: fmt.Sprint(i), LockService: strings.Repeat("x", 8000)})
		if err != nil {
			break
		}
	}
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), path+" cannot grow, make room on its disk: ") {
		t.Error(err)
	}
}
