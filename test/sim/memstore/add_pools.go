package memstore

import (
	"context"
	"maps"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// AddPools makes pools known before a replica has loaded them.
func (s *Store) AddPools(ctx context.Context, pools map[string]jobs.Pool) error {
	if err := (jobs.Set{Pools: pools}).Validate(); err != nil {
		return err
	}
	all := map[string]jobs.Pool{jobs.DefaultPool: {}}
	maps.Copy(all, pools)
	return s.tx(ctx, "add pools", func(t *tx) error {
		for name, p := range all {
			row := t.pools.rows[name]
			if row.Hash != "" {
				continue
			}
			p = p.WithDefaults()
			row.Name, row.Hash, row.Config, row.MaxRunning = name, p.Hash(), 0, p.MaxRunning
			row.MaxAttempts, row.OnLost = p.Retries.Limit+1, string(p.OnLost)
			put(t, &t.pools, row)
		}
		return nil
	})
}
