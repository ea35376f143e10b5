package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Pools returns all pools that were ever configured with their counts, sorted by name. Fields that only the configuration of a
// replica has are empty.
func (s *Store) Pools(ctx context.Context) ([]wire.Pool, error) {
	all, err := views{s}.Pools(ctx)
	return mapped(all, ledger.PoolStatus.View), err
}

// Pools returns the rows of all pools that were ever configured with their counts, and their tasks that
// no replica may claim, sorted by name.
func (s views) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.view)
}

// Pools is that of views for replicas: it waits for no reader. It implements ledger.Tasks.
func (s replica) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.read)
}

func poolStatuses(ctx context.Context, by reading) ([]ledger.PoolStatus, error) {
	return get(ctx, by, "pools", func(t *tx) ([]ledger.PoolStatus, error) {
		all, err := list(rowsOf(table[poolModel](t).Order("name")), (*poolModel).status)
		if err != nil {
			return nil, err
		}
		named := make(map[string]*ledger.PoolStatus, len(all))
		for i := range all {
			named[all[i].Name] = &all[i]
		}
		if err := t.countTasks(named); err != nil {
			return nil, err
		}
		return all, t.unrunnable(named)
	})
}

// countTasks reads index tasks_claim, alone.
func (t *tx) countTasks(of map[string]*ledger.PoolStatus) error {
	return each(t.rows(`SELECT pool, state, COUNT(*) AS n, MIN(run_at) AS since FROM {tasks} GROUP BY state, pool`), func(c *tally) {
		switch p, state := of[c.Pool], rowState(c.State); {
		case p == nil:
		case state == rowReady, state == rowLocked:
			p.Pending += c.N
			if since := fromMicros(c.Since); p.OldestPending.IsZero() || since.Before(p.OldestPending) {
				p.OldestPending = since
			}
		case state == rowWaits:
			p.Scheduled = c.N
		case state == rowRunning:
			p.Running = c.N
		}
	})
}

// PausePool sets the override of a pool's pause, or clears it with nil. by names the origin of the request.
// jobs.ErrNotFound for a pool that no configuration has.
func (s views) PausePool(ctx context.Context, name string, by string, override *bool) error {
	return s.override(ctx, "pool", name, override, by,
		`SELECT 1 FROM {pools} WHERE name = ? AND hash <> ''{for_update}`,
		`UPDATE {pools} SET paused = ?, paused_by = ? WHERE name = ?`)
}
