package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// AddPools makes pools known before a replica has loaded them.
func (s *Store) AddPools(ctx context.Context, pools map[string]jobs.Pool) error {
	if err := (jobs.Set{Pools: ledger.Declared(pools)}).Validate(); err != nil {
		return err
	}
	all := map[string]jobs.Pool{naming.DefaultPool: {}}
	maps.Copy(all, pools)
	return s.tx(ctx, "add pools", func(t *tx) error {
		for name := range all {
			for other, row := range t.pools.rows {
				if row.Hash != "" && t.pools.rows[name].Hash == "" && name != other && strings.EqualFold(name, other) {
					return &jobs.FieldError{Path: "pools." + name, Problem: fmt.Sprintf("differs from pool %s only in capitals", other)}
				}
			}
		}
		for name, p := range all {
			row := t.pools.rows[name]
			if has := ledger.DeclaredKinds(p); row.Hash == "" || row.Config == 0 {
				before, any := t.governing(name)
				switch {
				case row.Hash == "" || any:
				case has == nil:
					has = before
				default:
					has = slices.Compact(slices.Sorted(slices.Values(slices.Concat(has, before))))
				}
				h := handled{}
				if has != nil {
					h.Kinds = map[string]string{}
				}
				for _, kind := range has {
					h.Kinds[kind] = ""
				}
				t.keepKinds(0, name, h)
			}
			if row.Hash != "" {
				continue
			}
			p = p.WithDefaults()
			before := row.Limits()
			row.Name, row.Hash, row.Config, row.MaxRunning = name, p.Hash(), 0, p.MaxRunning
			row.Rate, row.Burst = rateText(p.Rate), p.Burst
			t.defineKeys(&row, p.PerKey, p.PerKind, p.Order, p.Fair)
			row.Bucket = before.Converted(row.Bucket, t.now(), row.Limits())
			row.MaxAttempts, row.OnLost, row.LostLimit = p.Retries.Attempts(), string(p.OnLost), p.LostLimit
			put(t, &t.pools, row)
		}
		return nil
	})
}
