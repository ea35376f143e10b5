package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// timing is a dialect that notes how long a change of the schema may take, and makes none.
type timing struct {
	sqlkit.Dialect
	left time.Duration
}

func (d *timing) Alone(ctx context.Context, _ *sqlkit.DB, _ string, _ func(*sqlkit.Tx) error) error {
	if end, bounded := ctx.Deadline(); bounded {
		d.left = time.Until(end)
	}
	return nil
}

// Migrate has a minute, unless its context has a deadline.
func TestMigrateIsBounded(t *testing.T) {
	s, err := Open(t.Context(), "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	notes := &timing{Dialect: s.db.Dialect}
	s.db.Dialect = notes
	if err := s.Migrate(t.Context()); err != nil || notes.left <= 0 || notes.left > migrateTimeout {
		t.Errorf("it has %v: %v", notes.left, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := s.Migrate(ctx); err != nil || notes.left < time.Hour/2 {
		t.Errorf("of an hour it has %v: %v", notes.left, err)
	}
}
