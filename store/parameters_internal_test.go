package store

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// strict is a dialect that takes no parameters but those that sqlkit names.
type strict struct {
	sqlkit.Dialect
	t    *testing.T
	seen *int
}

func (s strict) Args(args []any) []any {
	for _, arg := range args {
		switch arg.(type) {
		case nil, string, []byte, bool, *bool, int, *int, int64, sql.NullBool, sql.NullInt64, sql.NullString:
		default:
			s.t.Errorf("a parameter is %T: %v", arg, arg)
		}
		*s.seen++
	}
	return s.Dialect.Args(args)
}

// The parameters of statements have few types: each dialect must have the types that the driver makes of them.
func TestParametersHaveFewTypes(t *testing.T) {
	s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
	seen := 0
	s.db.Dialect = strict{s.db.Dialect, t, &seen}
	call := func(op string, fn func() error) {
		t.Helper()
		if err := fn(); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	lostAnswersOfTasks(t, s, call)
	rated := jobs.Pool{MaxRunning: 1, Rate: jobs.Rate{Count: 1, Per: time.Hour}, Burst: 2}
	for _, o := range []*wire.PoolLimits{nil, {Rate: &rated.Rate}, {MaxRunning: new(1), Burst: new(2)}, {Rate: new(jobs.Rate)}} {
		call("override", func() error { return s.Sides().API.LimitPool(t.Context(), "p", "me", o) })
	}
	call("retire all pools, of which one has an override", func() error {
		session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "limits", LockService: "x"})
		if err == nil {
			_, err = s.Sides().Replica.Load(t.Context(), session, ledger.Definitions{})
		}
		return err
	})
	call("add pools", func() error { return s.AddPools(t.Context(), map[string]jobs.Pool{"p": rated, "q": rated}) })
	if seen == 0 {
		t.Error("no parameters were seen")
	}
}
