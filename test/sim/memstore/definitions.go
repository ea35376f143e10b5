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

// Enter implements ledger.Configurations.
func (s *Store) Enter(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	err = s.tx(ctx, "load", func(t *tx) error {
		row, found := t.sessions.rows[session]
		if !found || row.Dead {
			return ledger.ErrSessionDead
		}
		is, known := t.configs.rows[d.Content()]
		if !known || d.Activate && is.Number < t.config {
			last := t.config
			t.config++
			t.changes = append(t.changes, change{undo: func() { t.config = last }})
			is = configuration{d.Content(), t.config, micros(t.now())}
			put(t, &t.configs, is)
			for _, other := range t.sorted() {
				if known && !other.Dead && other.ConfigHash == is.Hash && other.ID != session {
					other.Config = is.Number
					put(t, &t.sessions, other)
				}
			}
		}
		config = is.Number
		row.Config, row.ConfigHash, row.ConfigAt = config, is.Hash, micros(d.At)
		put(t, &t.sessions, row)
		for _, p := range d.Pools {
			t.keepKinds(config, p.Name, handled{p.Hash, p.Kinds})
		}
		return nil
	})
	return config, err
}

// SetDiffers implements ledger.Configurations.
func (s *Store) SetDiffers(ctx context.Context, session, what string) error {
	return s.tx(ctx, "set what differs", func(t *tx) error {
		if row, found := t.sessions.rows[session]; found && !row.Dead {
			row.Differs = what
			put(t, &t.sessions, row)
		}
		return nil
	})
}

// Load implements ledger.Configurations.
func (s *Store) Load(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	if config, err = s.Enter(ctx, session, d); err != nil {
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
		if d.Number != 0 && own.Config != d.Number {
			return ledger.ErrRenumbered
		}
		got = ledger.Assertion{Governs: true}
		for _, r := range t.sessions.rows {
			got.Governs = got.Governs && (r.Dead || r.Config <= own.Config || t.makes(AnyGoverns))
		}
		poolDefs, jobDefs := map[string]ledger.PoolDef{}, map[string]ledger.JobDef{}
		for _, p := range d.Pools {
			poolDefs[p.Name] = p
		}
		for _, j := range d.Jobs {
			jobDefs[j.Name] = j
		}
		rows := t.jobs.rows
		if got.Followed = d.Followed(t.config); got.Followed { // none but these can have been written
			rows = map[string]Job{}
			for _, name := range d.Changed {
				if row, exists := t.jobs.rows[name]; exists {
					rows[name] = row
				}
			}
			maps.DeleteFunc(jobDefs, func(name string, _ ledger.JobDef) bool { return !slices.Contains(d.Changed, name) })
		}
		pools := stale(t.pools.rows, poolDefs, func(r Pool, p ledger.PoolDef, defined bool) bool {
			has, _ := t.handled(p.Name, 0)
			return r.differs(p, defined) || defined && (has.Hash != p.Hash || (has.Kinds == nil) != (p.Kinds == nil) || !maps.Equal(has.Kinds, p.Kinds))
		})
		if !got.Governs {
			got.Jobs = stale(rows, jobDefs, Job.differs)
			for _, name := range pools {
				if is := t.pools.rows[name]; is.Hash == "" && !t.removed(is) {
					continue
				}
				got.Pools = append(got.Pools, t.other(name))
			}
			return nil
		}
		for _, name := range pools {
			t.definePool(own.Config, name, poolDefs)
		}
		names := stale(rows, jobDefs, Job.unwritten)
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
			missed = append(missed, t.defineJob(own.Config, name, d, jobDefs, micros(now))...)
		}
		if err := t.happened(now, missed); err != nil {
			return err
		}
		return t.cancelRetired(now, func() bool { return true })
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
		if t.makes(CancelsRemoved) {
			for _, task := range t.tasks.rows {
				if task.Pool == name && task.State != Running {
					t.withdraw(t.now(), task, ledger.ReasonRetired, reason.JobRemoved)
				}
			}
		}
	}
	put(t, &t.pools, row)
}

func (r Job) differs(d ledger.JobDef, defined bool) bool {
	if !defined {
		return r.Hash != ""
	}
	return r.Hash != d.Hash || r.Schedule != d.Schedule || r.Stripe != d.Stripe || r.SuspendAfter != d.SuspendAfter
}

func (r Job) unwritten(d ledger.JobDef, defined bool) bool {
	return r.differs(d, defined) || defined && r.Defined != d.Hash
}

// keepDefinition ends the definition that governed, and keeps the one that does now.
func (t *tx) keepDefinition(config int64, name string, all ledger.Definitions, defs map[string]ledger.JobDef, now int64) {
	d, defined := defs[name]
	if row := t.jobs.rows[name]; row.Defined != "" && (!defined || row.Defined != d.Hash) {
		for _, was := range t.history.rows {
			if was.Job == name && was.UntilAt == 0 {
				was.UntilAt = now
				put(t, &t.history, was)
			}
		}
	}
	if !defined {
		return
	}
	is := Definition{Job: name, Hash: d.Hash, Definition: ledger.DefinitionID("", d.Hash), Config: config, FirstAt: now, Body: []byte("{}")}
	if was, existed := t.history.rows[definitionKey{name, d.Hash}]; existed {
		is = was
	}
	if all.Shown != nil {
		is.Body = all.Shown(name)
	}
	is.SinceAt, is.UntilAt = now, 0
	put(t, &t.history, is)
}

// due is the next undecided due time, and when its trigger starts where that is another one.
func (r Job) due() (at, start time.Time) {
	return ledger.Undecided(fromMicros(r.Cursor), fromMicros(r.Due), fromMicros(r.Next), fromMicros(r.Waiting))
}

// expect writes the first due time after the cursor.
func (r *Job) expect(d ledger.JobDef) {
	due, next := d.Coming(fromMicros(r.Cursor))
	r.Due, r.Next, r.Waiting = micros(due), micros(next), 0
}

// defineJob returns what was due by the old schedule, and is missed.
func (t *tx) defineJob(config int64, name string, all ledger.Definitions, defs map[string]ledger.JobDef, now int64) (missed []happening) {
	row, existed := t.jobs.rows[name]
	d, defined := defs[name]
	if row.Schedule != "" && (!defined || row.Schedule != d.Schedule) {
		due, _ := row.due()
		for _, g := range all.Overtaken(ledger.Overtaken{
			Job: name, Definition: t.history.rows[definitionKey{name, row.Defined}].Body, Suspension: row.Suspension(), Cursor: fromMicros(row.Cursor), Due: due,
			Now: fromMicros(now), Removed: !defined,
		}) {
			g.Definition, g.Config = ledger.DefinitionID("", row.Hash), config
			is := triggerOf(g)
			if add(t, &t.triggers, is) && g.Outcome == jobs.Missed {
				missed = append(missed, happening{job: name, at: is.At, until: is.Until, count: g.Count, event: jobs.EventMissed, reason: g.Reason, code: g.ReasonCode})
			}
		}
	}
	t.keepDefinition(config, name, all, defs, now)
	row.Config = config
	switch {
	case !defined:
		row.Hash, row.Schedule, row.Next, row.Due, row.Waiting, row.Defined = "", "", 0, 0, 0, ""
		t.endOrders(name, fromMicros(now))
	case !existed || row.Schedule != d.Schedule:
		row.Cursor, row.Schedule = max(row.Cursor, now), d.Schedule
		row.expect(d)
		for _, task := range t.tasks.rows {
			if task.Job == name && task.State == Queued {
				due, start := d.Coming(fromMicros(row.Cursor))
				next, waiting := ledger.QueuedNext(due, start, fromMicros(now))
				row.Next, row.Due, row.Waiting = micros(next), 0, micros(waiting)
			}
		}
	case row.Waiting == 0 && (row.Due != 0 || d.Due != nil):
		row.expect(d)
	}
	if defined {
		row.Name, row.Hash, row.Stripe, row.Defined, row.SuspendAfter = name, d.Hash, d.Stripe, d.Hash, d.SuspendAfter
	}
	put(t, &t.jobs, row)
	return missed
}

// Upcoming implements ledger.Configurations.
func (s *Store) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	return s.upcoming(ctx, "upcoming", func(r Job) bool { return slices.Contains(stripes, r.Stripe) })
}

// UpcomingOf implements ledger.Triggers.
func (s *Store) UpcomingOf(ctx context.Context, jobs []string) ([]ledger.Upcoming, error) {
	return s.upcoming(ctx, "upcoming of jobs", func(r Job) bool { return slices.Contains(jobs, r.Name) })
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
				all = append(all, ledger.Upcoming{Job: r.Name, NextAt: fromMicros(r.Next), Waits: r.Waiting != 0})
			}
		}
		return nil
	})
	return all, err
}
