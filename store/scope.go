package store

import (
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// inScope is the condition, beginning with AND, that a row of {tasks} is in the scope, for a WHERE that
// finds the row by tasks_claim: the other columns are read from the row.
func inScope(s ledger.Scope) (where string, args []any) {
	if w := s.Within; w != nil {
		where = " AND rank_order=?"
		args = []any{-w.Priority}
		if !w.After.IsZero() {
			where += " AND run_at>?"
			args = append(args, micros(w.After))
		}
		if !w.UpTo.IsZero() {
			where += " AND run_at<=?"
			args = append(args, micros(w.UpTo))
		}
	}
	if names := sqlkit.Padded(s.SkipJobs); len(names) > 0 {
		where += " AND job NOT IN (" + sqlkit.Marks(len(names)) + ")"
		args = append(args, sqlkit.Texts(names)...)
	}
	switch kinds := sqlkit.Padded(s.Kinds); {
	case s.Kinds == nil:
	case len(kinds) == 0:
		where += " AND job<>''"
	default:
		where += " AND (job<>'' OR kind IN (" + sqlkit.Marks(len(kinds)) + "))"
		args = append(args, sqlkit.Texts(kinds)...)
	}
	return where, args
}
