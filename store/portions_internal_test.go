package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// More standings than one statement takes are made, and read, in the order of their keys.
func TestManyStandings(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	var subjects []subject
	for i := range sqlkit.MaxRows + 3 {
		subjects = append(subjects, subject{"job", fmt.Sprintf("%06d", (i*7)%(sqlkit.MaxRows+3))})
	}
	for range 2 {
		var rows []standingModel
		err := s.tx(t.Context(), "test", func(t *tx) (err error) { rows, err = t.lockStandings(slices.Clone(subjects)); return err })
		if err != nil || len(rows) != len(subjects) {
			t.Fatalf("%d of %d: %v", len(rows), len(subjects), err)
		}
		for i, r := range rows {
			if want := fmt.Sprintf("%06d", i); r.Name != want {
				t.Fatalf("row %d is %s", i, r.Name)
			}
		}
	}
}
