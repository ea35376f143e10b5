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
	return viewed(all, ledger.PoolStatus.View), err
}

// Pools returns the rows of all pools that were ever configured with their counts, and their tasks that
// no replica may claim, sorted by name.
func (s views) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.view)
}

// Pools is that of views for replicas: it waits for no reader. It implements the scheduler's Tasks.
func (s replica) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.read)
}

// reading is view or read.
type reading func(ctx context.Context, op string, fn func(t *tx) error) error

func poolStatuses(ctx context.Context, read reading) ([]ledger.PoolStatus, error) {
	var all []ledger.PoolStatus
	err := read(ctx, "pools", func(t *tx) error {
		all = nil
		err := rows(table[poolModel](t).Order("name"), func(m *poolModel) error {
			p, err := m.status()
			all = append(all, p)
			return err
		})
		if err != nil {
			return err
		}
		named := make(map[string]*ledger.PoolStatus, len(all))
		for i := range all {
			named[all[i].Name] = &all[i]
		}
		if err := t.countTasks(named); err != nil {
			return err
		}
		return t.unrunnable(named)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// countTasks reads index tasks_claim, alone.
func (t *tx) countTasks(of map[string]*ledger.PoolStatus) error {
	return read(t, `SELECT pool, state, COUNT(*) AS n, MIN(run_at) AS since FROM {tasks} GROUP BY state, pool`, nil, func(c *tally) error {
		switch p, state := of[c.Pool], rowState(c.State); {
		case p == nil:
		case state == rowReady:
			p.Pending, p.OldestPending = c.N, fromMicros(c.Since)
		case state == rowWaits:
			p.Scheduled = c.N
		case state == rowRunning:
			p.Running = c.N
		}
		return nil
	})
}

// PausePool sets the override of a pool's pause, or clears it with nil. by names the origin of the request.
// jobs.ErrNotFound for a pool that no configuration has.
func (s views) PausePool(ctx context.Context, name string, by string, override *bool) error {
	return s.override(ctx, "pool", name, override, by,
		`SELECT 1 FROM {pools} WHERE name = ? AND hash <> ''{for_update}`,
		`UPDATE {pools} SET paused = ?, paused_by = ? WHERE name = ?`)
}
