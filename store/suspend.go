package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// SuspendJob sets the override of a job's suspend, or clears it with nil. by names the origin of the request.
// jobs.ErrNotFound for a job that no configuration has.
func (s views) SuspendJob(ctx context.Context, name string, by string, override *bool) error {
	set, err := s.SuspendJobs(ctx, []string{name}, by, ledger.Suspension{Suspended: override})
	if err == nil && len(set) == 0 {
		err = fmt.Errorf("job %.64q: %w", name, jobs.ErrNotFound)
	}
	return err
}

// SuspendJobs sets the override of jobs, at most sqlkit.MaxRows, in one transaction, or clears it. Resuming a job without an end clears it, too, if its
// definition does not suspend it: see ledger.API. It returns the names, sorted, of those that a configuration has; nothing is set of the others. by
// names the origin of the request.
//
// Index: primary keys of jobs and definitions.
//
// Errors: a *jobs.FieldError for an end that has passed by the database's time, jobs.ErrUnavailable.
func (s views) SuspendJobs(ctx context.Context, names []string, by string, o ledger.Suspension) (set []string, err error) {
	names = sqlkit.Distinct(slices.Clone(names))
	err = s.sure(ctx, "override job", func(t *tx) (err error) {
		rows, err := list(t.rows("SELECT name, hash FROM {jobs}{by_key} WHERE {in name name} AND hash<>'' ORDER BY name{for_update}", sqlkit.Keys(names)), func(m *jobModel) jobModel { return *m })
		set = mapped(rows, func(m jobModel) string { return m.Name })
		if err != nil || len(set) == 0 {
			return err
		}
		if !o.Until.IsZero() {
			now, err := t.Now()
			if err == nil && !o.Until.After(now) {
				err = &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed}
			}
			if err != nil {
				return err
			}
		}
		var cleared []string
		if o.Resumes() {
			if cleared, err = t.unsuspended(rows); err != nil {
				return err
			}
			if err := t.suspend(cleared, "", ledger.Suspension{}); err != nil {
				return err
			}
		}
		return t.suspend(slices.DeleteFunc(slices.Clone(set), func(name string) bool { return slices.Contains(cleared, name) }), by, o)
	})
	return set, err
}

// unsuspended are those of the jobs, whose rows are locked, that the history has the definition of, and which that does not suspend.
//
// Index: primary key of definitions.
func (t *tx) unsuspended(rows []jobModel) (names []string, err error) {
	err = each(t.rows("SELECT job, body FROM {definitions}{by_key} WHERE {in name job, name hash}", sqlkit.Rows(rows, func(m jobModel) []any { return []any{m.Name, m.Hash} })),
		func(m *definitionModel) {
			if shown, err := foresight.ReadShown(m.Body); err == nil && !shown.Suspend {
				names = append(names, m.Job)
			}
		})
	return names, err
}

// suspend: the rows are locked.
//
// Index: primary key.
func (t *tx) suspend(names []string, by string, o ledger.Suspension) error {
	if len(names) == 0 {
		return nil
	}
	if o.Suspended == nil {
		by = ""
	}
	_, err := t.Exec("UPDATE {jobs}{by_key} SET suspended=?, suspended_by=?, suspended_until=?, failures=0, suspend_reason='' WHERE {in name name}",
		sqlkit.Keys(names), o.Suspended, clip.Text(by, limits.By), micros(o.Until))
	return err
}

// SkipNext has the next n due times of a job skipped, in place of those that were to be before. by names the origin of the request.
//
// Index: primary key.
//
// Errors: jobs.ErrNotFound for a job that no configuration has, jobs.ErrUnavailable.
func (s views) SkipNext(ctx context.Context, name, by string, n int) error {
	if n == 0 {
		by = ""
	}
	return s.sure(ctx, "skip due times", func(t *tx) error {
		rows, err := t.lockJobs([]string{name})
		if err == nil && (len(rows) == 0 || rows[0].Hash == "") {
			err = fmt.Errorf("job %.64q: %w", name, jobs.ErrNotFound)
		}
		if err != nil {
			return err
		}
		_, err = t.Exec("UPDATE {jobs} SET skip_next=?, skip_by=? WHERE name=?", n, clip.Text(by, limits.By), name)
		return err
	})
}
