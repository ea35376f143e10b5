package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Pools implements ledger.Tasks: it returns the rows of all pools, sorted by name, and what is in them.
func (s *Store) Pools(ctx context.Context) (all []ledger.PoolStatus, err error) {
	err = s.tx(ctx, "pools", func(t *tx) error {
		for _, r := range t.pools.rows {
			o, keys := r.override(), r.holds()
			p := ledger.PoolStatus{
				Name: r.Name, Hash: r.Hash, Limits: r.Limits(), Override: o, Aside: r.rules().Aside(o), LimitsBy: r.LimitsBy,
				PerKey: keys.PerKey, PerKind: keys.PerKind, Order: keys.Order, Fair: keys.Fair, Paused: r.Paused, PausedBy: r.PausedBy, PauseReason: r.PauseReason,
			}
			n := map[int]int{}
			for _, task := range t.tasks.rows {
				if task.Pool != r.Name {
					continue
				}
				if n[task.State]++; task.State != Running && n[task.State] > ledger.PoolMost {
					n[task.State], p.Approximate = ledger.PoolMost, true
				}
				if at := fromMicros(task.RunAt); (task.State == Ready || task.State == Locked || task.State == Queued) && (p.OldestPending.IsZero() || at.Before(p.OldestPending)) {
					p.OldestPending = at
				}
			}
			p.Pending, p.Scheduled, p.Running = n[Ready]+n[Locked]+n[Queued], n[Waits], n[Running]
			t.unrunnable(&p)
			all = append(all, p)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b ledger.PoolStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// PausePool sets the override of a pool's pause, or clears it with nil; jobs.ErrNotFound.
func (s *Store) PausePool(ctx context.Context, name string, by string, override *bool) error {
	return s.tx(ctx, "pause pool", func(t *tx) error {
		row := t.pools.rows[name]
		if row.Hash == "" {
			return fmt.Errorf("pool %q: %w", name, jobs.ErrNotFound)
		}
		row.Paused, row.PausedBy, row.PauseWindow, row.PauseReason = override, byWhom(override, by), "", ""
		put(t, &t.pools, row)
		return nil
	})
}
