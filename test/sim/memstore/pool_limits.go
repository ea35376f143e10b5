package memstore

import (
	"cmp"
	"context"
	"encoding/json"
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
		before := row
		if o != nil {
			kinds, any := t.governing(name)
			if any {
				kinds = nil
			}
			if err := row.rules().Check(*o, kinds); err != nil {
				return err
			}
		}
		row.set(o, by)
		t.convertKeys(before, row)
		row.Bucket = before.Limits().Converted(row.Bucket, t.now(), row.Limits())
		put(t, &t.pools, row)
		return nil
	})
}

// set is LimitPool in the row.
func (r *Pool) set(o *wire.PoolLimits, by string) {
	is := wire.PoolLimits{}
	if o != nil {
		if before := r.override(); before != nil {
			is = *before
		}
		is = is.With(*o)
	}
	r.SetMaxRunning, r.SetBurst, r.SetRate, r.SetKeyLimits, r.LimitsBy = is.MaxRunning, is.Burst, nil, nil, ""
	if is.Rate != nil {
		r.SetRate = new(rateText(*is.Rate))
	}
	if is.None() {
		return
	}
	r.LimitsBy = by
	if is.MaxRunning, is.Rate, is.Burst = nil, nil, nil; !is.None() {
		r.SetKeyLimits, _ = json.Marshal(is) // it always encodes
	}
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
	o := wire.PoolLimits{}
	if keys := r.setKeys(); keys != nil {
		o = *keys
	}
	o.MaxRunning, o.Burst = r.SetMaxRunning, r.SetBurst
	if r.SetRate != nil {
		o.Rate = new(rateOf(*r.SetRate))
	}
	if o.None() {
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
