package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A configuration has more time than other calls, unless its context has a deadline.
func TestDefinitionsHaveTimeOfTheirOwn(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.db.Timeout = time.Nanosecond
	if _, err := s.Sides().Replica.Assert(t.Context(), session, ledger.Definitions{}); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	if _, err := s.Sides().Replica.Assert(ctx, session, ledger.Definitions{}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("within something that takes a day: %v", err)
	}
}
