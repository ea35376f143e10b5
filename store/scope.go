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
	if len(s.SkipJobs) > 0 {
		list, names := sqlkit.List(s.SkipJobs)
		where, args = where+" AND job NOT IN "+list, append(args, names...)
	}
	switch {
	case s.Kinds == nil:
	case len(s.Kinds) == 0:
		where += " AND job<>''"
	default:
		list, kinds := sqlkit.List(s.Kinds)
		where, args = where+" AND (job<>'' OR kind IN "+list+")", append(args, kinds...)
	}
	return where, args
}
