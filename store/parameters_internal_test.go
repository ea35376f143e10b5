package store

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
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
		case nil, string, []byte, bool, *bool, int, int64, sql.NullBool, sql.NullInt64, sql.NullString:
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
	lostAnswersOfTasks(t, s, func(op string, fn func() error) {
		t.Helper()
		if err := fn(); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	})
	if seen == 0 {
		t.Error("no parameters were seen")
	}
}
