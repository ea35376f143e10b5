package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Look searches for pending tasks of a pool that are in a scope, priority by priority, and stops at the first priority that has
// some. It reads at most l.Most tasks of each priority, those at one run_at together, however many are out of scope. It
// implements ledger.Tasks.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Look(ctx context.Context, pool string, l ledger.Look) (seen ledger.Seen, err error) {
	err = s.read(ctx, "look for work", func(t *tx) error {
		seen = ledger.Seen{Past: map[int]time.Time{}}
		for rank, more := math.MinInt32, true; seen.Work == nil; {
			var err error
			if rank, more, err = t.nextRank(pool, rank); err == nil && !more {
				seen.Work, err = t.lookAtKeys(pool, l.Scope)
			}
			if err != nil || !more {
				return err
			}
			if err := t.lookAt(pool, rank, l, &seen); err != nil {
				return err
			}
		}
		return nil
	})
	return seen, err
}

// nextRank is the first priority after rank that the pool's ready tasks have.
//
// Index: tasks_claim, one probe.
func (t *tx) nextRank(pool string, rank int) (next int, found bool, err error) {
	found, err = t.One("SELECT rank_order FROM {tasks}{index}{tasks}_claim{end} WHERE state=0 AND pool=? AND rank_order>? ORDER BY rank_order LIMIT 1",
		[]any{pool, rank}, &next)
	return next, found, err
}

// lookAt reads the tasks of one priority.
//
// Index: tasks_claim, equality on state, pool and rank, a range of run_at. Where the look ends is read from the
// index alone, kinds and jobs up to there from the rows.
func (t *tx) lookAt(pool string, rank int, l ledger.Look, seen *ledger.Seen) error {
	const ready = " FROM {tasks}{index}{tasks}_claim{end} WHERE state=0 AND pool=?"
	w := &ledger.Window{Priority: -rank, After: l.Past[-rank]}
	rest, from := inScope(ledger.Scope{Within: w})
	var end int64
	full, err := t.One("SELECT run_at"+ready+rest+" ORDER BY run_at LIMIT 1 OFFSET ?", slices.Concat([]any{pool}, from, []any{l.Most - 1}), &end)
	if err != nil {
		return err
	}
	w.UpTo = fromMicros(end) // none if it is not full
	l.Within = w
	scope, of := inScope(l.Scope)
	found, err := t.One("SELECT id"+ready+scope+" LIMIT 1", append([]any{pool}, of...), new(string))
	switch {
	case err != nil:
		return err
	case found:
		seen.Work = w
	case full:
		seen.Past[w.Priority] = w.UpTo
	}
	return nil
}

// lookAtKeys finds out whether tasks in a scope wait for keys that are to be looked at. Its window has no ready task.
//
// Index: keys_pool, primary key of key_waits.
func (t *tx) lookAtKeys(pool string, s ledger.Scope) (*ledger.Window, error) {
	kinds, args := "", []any(nil)
	switch {
	case s.Kinds == nil:
	case len(s.Kinds) == 0:
		return nil, nil
	default:
		list, of := sqlkit.List(s.Kinds)
		kinds, args = " AND w.kind IN "+list, of
	}
	now, err := t.Now()
	if err != nil {
		return nil, err
	}
	found, err := t.One("SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=? AND k.look_at>0 AND k.look_at<=?"+
		" AND EXISTS (SELECT 1 FROM {key_waits} w WHERE w.pool=k.pool AND w.task_key=k.task_key"+kinds+") LIMIT 1",
		slices.Concat([]any{pool, micros(now)}, args), new(string))
	if err != nil || !found {
		return nil, err
	}
	return &ledger.Window{UpTo: time.UnixMicro(1)}, nil
}

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
