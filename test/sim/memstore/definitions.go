package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Load implements ledger.Configurations.
func (s *Store) Load(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	err = s.tx(ctx, "load", func(t *tx) error {
		row, found := t.sessions.rows[session]
		if !found || row.Dead {
			return ledger.ErrSessionDead
		}
		last := t.config
		t.config++
		t.changes = append(t.changes, change{undo: func() { t.config = last }})
		config = t.config
		row.Config = config
		put(t, &t.sessions, row)
		for _, p := range d.Pools {
			t.keepKinds(config, p.Name, handled{p.Hash, p.Kinds})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = s.Assert(ctx, session, d)
	return config, err
}

// Assert implements ledger.Configurations.
func (s *Store) Assert(ctx context.Context, session string, d ledger.Definitions) (got ledger.Assertion, err error) {
	err = s.tx(ctx, "assert", func(t *tx) error {
		own, found := t.sessions.rows[session]
		if !found || own.Dead {
			return ledger.ErrSessionDead
		}
		got = ledger.Assertion{Governs: true}
		for _, r := range t.sessions.rows {
			got.Governs = got.Governs && (r.Dead || r.Config <= own.Config)
		}
		poolDefs, jobDefs := map[string]ledger.PoolDef{}, map[string]ledger.JobDef{}
		for _, p := range d.Pools {
			poolDefs[p.Name] = p
		}
		for _, j := range d.Jobs {
			jobDefs[j.Name] = j
		}
		pools := stale(t.pools.rows, poolDefs, func(r Pool, p ledger.PoolDef, defined bool) bool {
			has, _ := t.handled(p.Name, 0)
			return r.differs(p, defined) || defined && (has.Hash != p.Hash || (has.Kinds == nil) != (p.Kinds == nil) || !maps.Equal(has.Kinds, p.Kinds))
		})
		names := stale(t.jobs.rows, jobDefs, Job.differs)
		if !got.Governs {
			got.Jobs = names
			for _, name := range pools {
				got.Pools = append(got.Pools, t.other(name))
			}
			return nil
		}
		for _, name := range pools {
			t.definePool(own.Config, name, poolDefs)
		}
		if len(names) == 0 {
			return nil
		}
		now := t.now()
		if d.Now != nil {
			if now, err = d.Now(now); err != nil {
				return err
			}
		}
		var missed []happening
		for _, name := range names {
			missed = append(missed, t.defineJob(own.Config, name, jobDefs, micros(now))...)
		}
		return t.happened(now, missed)
	})
	return got, err
}

// stale are the names whose rows are missing, differ from their definition, or have none.
func stale[R, D any](rows map[string]R, defs map[string]D, differs func(R, D, bool) bool) (names []string) {
	for name, row := range rows {
		if d, defined := defs[name]; differs(row, d, defined) {
			names = append(names, name)
		}
	}
	for name := range defs {
		if _, exists := rows[name]; !exists {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r Pool) differs(d ledger.PoolDef, defined bool) bool {
	if !defined {
		return r.Hash != ""
	}
	return r.Hash != d.Hash || r.MaxRunning != d.MaxRunning || r.Rate != rateText(d.Rate) || r.Burst != d.Burst || !r.sameKeys(d) || r.MaxAttempts != d.MaxAttempts || r.LostLimit != cmp.Or(d.LostLimit, limits.Losses) || r.OnLost != onLost(d.Retry)
}

// other is what a replica goes by that has the pool otherwise.
func (t *tx) other(name string) ledger.OtherPool {
	o := ledger.OtherPool{Name: name, Hash: t.pools.rows[name].Hash}
	if o.Hash == "" {
		return o
	}
	row := t.pools.rows[name]
	o.MaxRunning, o.Rate, o.ByKey = row.MaxRunning, rateOf(row.Rate), row.ByKey()
	if has, _ := t.handled(name, 0); has.Hash == o.Hash {
		o.Kinds = has.Kinds
	}
	return o
}

func onLost(retry bool) string {
	if retry {
		return string(jobs.LostRetries)
	}
	return string(jobs.LostFails)
}

func (t *tx) definePool(config int64, name string, defs map[string]ledger.PoolDef) {
	row := t.pools.rows[name]
	row.Config = config
	if d, defined := defs[name]; defined {
		row.Name, row.Hash, row.MaxRunning, row.MaxAttempts, row.OnLost = name, d.Hash, d.MaxRunning, d.MaxAttempts, onLost(d.Retry)
		row.LostLimit = cmp.Or(d.LostLimit, limits.Losses)
		before := row.Limits()
		row.Rate, row.Burst = rateText(d.Rate), d.Burst
		t.defineKeys(&row, d.PerKey, d.PerKind, d.Order, d.Fair)
		row.Bucket = before.Converted(row.Bucket, t.now(), row.Limits())
		t.keepKinds(0, name, handled{d.Hash, d.Kinds})
	} else {
		row.Hash = ""
	}
	put(t, &t.pools, row)
}

func (r Job) differs(d ledger.JobDef, defined bool) bool {
	if !defined {
		return r.Hash != ""
	}
	return r.Hash != d.Hash || r.Schedule != d.Schedule || r.Stripe != d.Stripe
}

// defineJob returns what was due by the old schedule, and is missed.
func (t *tx) defineJob(config int64, name string, defs map[string]ledger.JobDef, now int64) (missed []happening) {
	row, existed := t.jobs.rows[name]
	d, defined := defs[name]
	at := micros(ledger.Undecided(fromMicros(row.Next), fromMicros(row.Waiting)))
	if at > 0 && at <= now && (!defined || row.Schedule != d.Schedule) {
		code, why := reason.ScheduleChanged, ledger.ReasonEdited
		if !defined {
			code, why = reason.JobRemoved, ledger.ReasonRemoved
		}
		if add(t, &t.triggers, Trigger{Job: name, At: at, Count: 1, Cause: string(jobs.CauseSchedule), Outcome: string(jobs.Missed), Reason: why, ReasonCode: code, DecidedAt: now}) {
			missed = append(missed, happening{job: name, at: at, count: 1, event: jobs.EventMissed, reason: why, code: code})
		}
	}
	row.Config = config
	switch {
	case !defined:
		row.Hash, row.Schedule, row.Next, row.Waiting = "", "", 0, 0
	case !existed || row.Schedule != d.Schedule:
		row.Cursor = max(row.Cursor, now)
		row.Schedule, row.Next, row.Waiting = d.Schedule, micros(d.Next(fromMicros(row.Cursor))), 0
	}
	if defined {
		row.Name, row.Hash, row.Stripe = name, d.Hash, d.Stripe
	}
	put(t, &t.jobs, row)
	return missed
}

// Upcoming implements ledger.Configurations.
func (s *Store) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	return s.upcoming(ctx, "upcoming", func(r Job) bool { return slices.Contains(stripes, r.Stripe) })
}

// Overdue implements ledger.Configurations.
func (s *Store) Overdue(ctx context.Context, at time.Time, limit int) ([]ledger.Upcoming, error) {
	all, err := s.upcoming(ctx, "overdue", func(r Job) bool { return r.Next <= micros(at) })
	slices.SortFunc(all, func(a, b ledger.Upcoming) int { return a.NextAt.Compare(b.NextAt) })
	return all[:min(limit, len(all))], err
}

func (s *Store) upcoming(ctx context.Context, op string, wanted func(Job) bool) (all []ledger.Upcoming, err error) {
	err = s.tx(ctx, op, func(t *tx) error {
		for _, r := range t.jobs.rows {
			if r.Next > 0 && wanted(r) {
				all = append(all, ledger.Upcoming{Job: r.Name, NextAt: fromMicros(r.Next), Waits: r.Waiting > 0})
			}
		}
		return nil
	})
	return all, err
}
