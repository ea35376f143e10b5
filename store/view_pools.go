package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// PoolStatuses returns the rows of all pools that were ever configured with their counts, and what in them
// waits for nobody, sorted by name.
func (s *Store) PoolStatuses(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.view)
}

// Pools is PoolStatuses for replicas: it waits for no reader. It implements the scheduler's Tasks.
func (s *Store) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.read)
}

// reading is view or read.
type reading func(ctx context.Context, op string, fn func(t *tx) error) error

func poolStatuses(ctx context.Context, read reading) ([]ledger.PoolStatus, error) {
	var all []ledger.PoolStatus
	err := read(ctx, "pools", func(t *tx) error {
		all = nil
		err := t.Query(`SELECT name, hash, max_running, paused, paused_by, kinds FROM {pools} ORDER BY name`, nil, func(scan func(...any) error) error {
			var p ledger.PoolStatus
			var text []byte
			if err := scan(&p.Name, &p.Hash, &p.MaxRunning, &p.Paused, &p.PausedBy, &text); err != nil {
				return err
			}
			has, err := readHandled(text)
			p.Kinds = has.governs(p.Hash)
			all = append(all, p)
			return err
		})
		if err != nil {
			return err
		}
		rows := make(map[string]*ledger.PoolStatus, len(all))
		for i := range all {
			rows[all[i].Name] = &all[i]
		}
		if err := t.countTasks(rows); err != nil {
			return err
		}
		return t.unrunnable(rows)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// countTasks reads index tasks_claim, alone.
func (t *tx) countTasks(rows map[string]*ledger.PoolStatus) error {
	return t.Query(`SELECT pool, state, COUNT(*), MIN(run_at) FROM {tasks} GROUP BY state, pool`, nil, func(scan func(...any) error) error {
		var pool string
		var state, n int
		var oldest int64
		if err := scan(&pool, &state, &n, &oldest); err != nil {
			return err
		}
		p := rows[pool]
		switch {
		case p == nil:
		case state == rowReady:
			p.Pending, p.OldestPending = n, fromMicros(oldest)
		case state == rowWaits:
			p.Scheduled = n
		case state == rowRunning:
			p.Running = n
		}
		return nil
	})
}

// PausePool sets the override of a pool's pause, or clears it with nil. by is who asked.
// jobs.ErrNotFound for a pool that no configuration has.
func (s *Store) PausePool(ctx context.Context, name string, override *bool, by string) error {
	return s.override(ctx, "pool", name, override, by,
		`SELECT 1 FROM {pools} WHERE name = ? AND hash <> ''{for_update}`,
		`UPDATE {pools} SET paused = ?, paused_by = ? WHERE name = ?`)
}
