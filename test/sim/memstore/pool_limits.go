package memstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// LimitPool sets the limits that o has, or clears all that were set with nil; jobs.ErrNotFound.
func (s *Store) LimitPool(ctx context.Context, name string, by string, o *wire.PoolLimits) error {
	return s.tx(ctx, "limit pool", func(t *tx) error {
		row := t.pools.rows[name]
		if row.Hash == "" {
			return fmt.Errorf("pool %q: %w", name, jobs.ErrNotFound)
		}
		before := row.Limits()
		if o == nil {
			row.SetMaxRunning, row.SetRate, row.SetBurst, row.LimitsBy = nil, nil, nil, ""
		} else {
			row.SetMaxRunning, row.SetBurst, row.LimitsBy = cmp.Or(o.MaxRunning, row.SetMaxRunning), cmp.Or(o.Burst, row.SetBurst), by
			if o.Rate != nil {
				row.SetRate = new(rateText(*o.Rate))
			}
		}
		row.Bucket = before.Converted(row.Bucket, t.now(), row.Limits())
		put(t, &t.pools, row)
		return nil
	})
}

// Limits are those of a pool that hold.
func (r Pool) Limits() ledger.Limits {
	own := ledger.Limits{MaxRunning: r.MaxRunning, Rate: rateOf(r.Rate), Burst: r.Burst}
	if o := r.override(); o != nil {
		return own.Under(*o)
	}
	return own
}

func (r Pool) override() *wire.PoolLimits {
	o := wire.PoolLimits{MaxRunning: r.SetMaxRunning, Burst: r.SetBurst}
	if r.SetRate != nil {
		o.Rate = new(rateOf(*r.SetRate))
	}
	if o == (wire.PoolLimits{}) {
		return nil
	}
	return &o
}

// rateText is a rate as the row has it: empty without one.
func rateText(r jobs.Rate) string {
	if r == (jobs.Rate{}) {
		return ""
	}
	return r.String()
}

func rateOf(text string) jobs.Rate {
	r, err := jobs.ParseRate(cmp.Or(text, "0"))
	if err != nil {
		panic(err) // of a text that rateText made
	}
	return r
}
