package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Jobs returns the rows of the named jobs, or of all, sorted by name.
func (s *Store) Jobs(ctx context.Context, names ...string) (all []ledger.JobStatus, err error) {
	err = s.tx(ctx, "jobs", func(t *tx) error {
		for _, r := range t.jobs.rows {
			if len(names) > 0 && !slices.Contains(names, r.Name) {
				continue
			}
			at, start := r.due()
			is := ledger.JobStatus{
				Job: wire.Job{
					Name: r.Name, Failures: r.Failures, SkipNext: r.SkipNext, SkipBy: r.SkipBy, Retired: r.Hash == "", NextAt: at, NextStartAt: start,
				},
				Hash: r.Hash, Config: r.Config, Cursor: fromMicros(r.Cursor), Fence: r.Fence,
			}
			if s := r.Suspension().At(t.now()); s.Suspended != nil {
				is.Suspended, is.Override, is.SuspendedBy, is.SuspendedReason, is.SuspendedUntil = *s.Suspended, s.Suspended, r.SuspendedBy, r.SuspendReason, s.Until
			}
			all = append(all, is)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b ledger.JobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// SuspendJob sets the override of a job's suspend, or clears it with nil; jobs.ErrNotFound.
func (s *Store) SuspendJob(ctx context.Context, name string, by string, override *bool) error {
	set, err := s.SuspendJobs(ctx, []string{name}, by, ledger.Suspension{Suspended: override})
	if err == nil && len(set) == 0 {
		err = fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
	}
	return err
}

// SuspendJobs sets the override of jobs, and returns those that a configuration has.
func (s *Store) SuspendJobs(ctx context.Context, names []string, by string, o ledger.Suspension) (set []string, err error) {
	err = s.tx(ctx, "suspend jobs", func(t *tx) error {
		set = nil
		if !o.Until.IsZero() && !o.Until.After(t.now()) {
			return &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed}
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			row := t.jobs.rows[name]
			if row.Hash == "" {
				continue
			}
			set = append(set, name)
			is := o
			if shown, err := foresight.ReadShown(t.history.rows[definitionKey{name, row.Hash}].Body); o.Resumes() && err == nil && !shown.Suspend {
				is = ledger.Suspension{}
			}
			row.Suspended, row.SuspendedBy, row.Until, row.SuspendReason, row.Failures = is.Suspended, byWhom(is.Suspended, by), micros(is.Until), "", 0
			put(t, &t.jobs, row)
		}
		return nil
	})
	return set, err
}

// SkipNext has the next n due times of a job skipped; jobs.ErrNotFound.
func (s *Store) SkipNext(ctx context.Context, name, by string, n int) error {
	return s.tx(ctx, "skip due times", func(t *tx) error {
		row := t.jobs.rows[name]
		if row.Hash == "" {
			return fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
		}
		if row.SkipNext, row.SkipBy = n, by; n == 0 {
			row.SkipBy = ""
		}
		put(t, &t.jobs, row)
		return nil
	})
}

func byWhom(override *bool, by string) string {
	if override == nil {
		return ""
	}
	return by
}
