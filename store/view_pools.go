package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Pools returns all pools that were ever configured with their counts, sorted by name: of many tasks lower bounds, which are marked as
// approximate. Fields that only the configuration of a replica has are empty.
func (s *Store) Pools(ctx context.Context) ([]wire.Pool, error) {
	all, err := views{s}.Pools(ctx)
	return mapped(all, ledger.PoolStatus.View), err
}

// Pools returns the rows of all pools that were ever configured with their counts, and their tasks that
// no replica may claim, sorted by name. Of each pool and state at most ledger.PoolMost tasks are counted.
func (s views) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.view, (*tx).countSome)
}

// CountPools is Pools with all tasks counted.
func (s views) CountPools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.view, (*tx).countAll)
}

// Pools is that of views for replicas: it waits for no reader. It implements ledger.Tasks.
func (s replica) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return poolStatuses(ctx, s.read, (*tx).countSome)
}

type poolsByName = map[string]*ledger.PoolStatus

func poolStatuses(ctx context.Context, by reading, count func(t *tx, of poolsByName) error) ([]ledger.PoolStatus, error) {
	return get(ctx, by, "pools", func(t *tx) ([]ledger.PoolStatus, error) {
		all, err := list(rowsOf(table[poolModel](t).Order("name")), (*poolModel).status)
		if err != nil {
			return nil, err
		}
		named := make(poolsByName, len(all))
		for i := range all {
			named[all[i].Name] = &all[i]
		}
		if err := count(t, named); err != nil {
			return nil, err
		}
		return all, t.unrunnable(named)
	})
}

// PausePool sets the override of a pool's pause, or clears it with nil. by names the origin of the request.
// jobs.ErrNotFound for a pool that no configuration has.
func (s views) PausePool(ctx context.Context, name string, by string, override *bool) error {
	return s.override(ctx, "pool", name, override, by,
		`SELECT 1 FROM {pools} WHERE name = ? AND hash <> ''{for_update}`,
		`UPDATE {pools} SET paused = ?, paused_by = ?, pause_reason = '', pause_window = '' WHERE name = ?`)
}

// LimitPool sets the limits that o has, in place of those of the pool's definition and of an earlier override, and removes what o resets; nil
// clears all overrides of limits. by names the origin of the request. The numbers are checked by the caller. They hold from the next claim
// on, for the tasks that wait, too; those that run go on.
//
// Errors: jobs.ErrNotFound for a pool that no configuration has; a *jobs.FieldError, with the JSON key as its path, for what the definition
// does not go with: then nothing was set.
func (s views) LimitPool(ctx context.Context, name string, by string, o *wire.PoolLimits) error {
	return s.sure(ctx, "override pool", func(t *tx) error {
		rows, err := defined[poolModel](t, []string{name}, "{for_update}")
		if err != nil {
			return err
		}
		row := rows[name]
		if row.Hash == "" {
			return t.unknownPool(name)
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		if o != nil {
			if err := row.rules().Check(*o, row.Kinds.is.governs(row.Hash)); err != nil {
				return err
			}
		}
		before, keys := row.limits(), row.perKey()
		row.set(o, by)
		row.BucketFullAt = before.Converted(row.BucketFullAt, now, row.limits())
		if err := t.changeKeys(&row, keys, now); err != nil {
			return err
		}
		// Index: primary key.
		_, err = t.Exec(`UPDATE {pools} SET set_max_running=?, set_rate=?, set_burst=?, set_key_limits=?, limits_by=?, bucket_full_at=?, keys_left=? WHERE name=?`,
			row.SetMaxRunning, row.SetRate.text(), row.SetBurst, row.setKeyText(), row.LimitsBy, int64(row.BucketFullAt), row.KeysLeft, name)
		return err
	})
}
