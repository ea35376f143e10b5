package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
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
			all = append(all, ledger.JobStatus{
				Job: wire.Job{
					Name: r.Name, Suspended: r.Suspended != nil && *r.Suspended, Override: r.Suspended, SuspendedBy: r.SuspendedBy,
					Retired: r.Hash == "", NextAt: ledger.Undecided(fromMicros(r.Next), fromMicros(r.Waiting)),
				},
				Hash: r.Hash, Config: r.Config, Cursor: fromMicros(r.Cursor), Fence: r.Fence,
			})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b ledger.JobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// SuspendJob sets the override of a job's suspend, or clears it with nil; jobs.ErrNotFound.
func (s *Store) SuspendJob(ctx context.Context, name string, by string, override *bool) error {
	return s.tx(ctx, "suspend job", func(t *tx) error {
		row := t.jobs.rows[name]
		if row.Hash == "" {
			return fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
		}
		row.Suspended, row.SuspendedBy = override, byWhom(override, by)
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
