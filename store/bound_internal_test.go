package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// A call has Options.Timeout, also where its context ends much later, as that of a handler does.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{timeout: 5 * time.Second}
		for given, want := range map[time.Duration]time.Duration{
			0: 5 * time.Second, time.Second: time.Second, 10 * time.Second: 10 * time.Second, ownBound: ownBound,
			ownBound + 1: 5 * time.Second, 24 * time.Hour: 5 * time.Second,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if given > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), given)
			}
			ctx, end := s.bound(ctx)
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != want {
				t.Errorf("a context of %v: %v, %t", given, time.Until(at), ok)
			}
			end()
			cancel()
		}
	})
}

// A configuration has more time than other calls, unless its context says how much.
func TestDefinitionsHaveTimeOfTheirOwn(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	session, err := s.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.timeout = time.Nanosecond
	if _, err := s.Assert(t.Context(), session, ledger.Definitions{}); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	if _, err := s.Assert(ctx, session, ledger.Definitions{}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("within something that takes a day: %v", err)
	}
}
