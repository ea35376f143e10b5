package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// assertTimeout bounds Load and Assert where the context does not: 100,000 jobs take seconds.
const assertTimeout = time.Minute

// Load takes the next configuration number for the session, keeps it there, and asserts d.
func (s replica) Load(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	err = s.sure(ctx, "load", func(t *tx) error { // an unused number does no harm
		last, err := t.lockConfig()
		if err != nil {
			return err
		}
		config = last + 1
		if _, err := t.Exec(`UPDATE {meta} SET value = ? WHERE name = ?`, strconv.FormatInt(config, 10), "config_counter"); err != nil {
			return err
		}
		n, err := t.Exec(`UPDATE {sessions} SET config = ? WHERE id = ? AND dead = 0`, config, session)
		if err == nil && n == 0 {
			err = ledger.ErrSessionDead
		}
		if err != nil {
			return err
		}
		return t.keepKinds(config, d.Pools)
	})
	if err != nil {
		return 0, err
	}
	if _, err := s.Assert(ctx, session, d); err != nil {
		return 0, err
	}
	return config, nil
}

// Assert makes d hold if no live session has a higher configuration number than this one; see ledger.Configurations. While d.Now
// refuses the clock, no job's row is written. Rows are written in batches. Each is a transaction that checks that the session
// still governs, so that other replicas wait for milliseconds.
func (s replica) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, assertTimeout)
		defer cancel()
	}
	jobDefs, poolDefs := map[string]*ledger.JobDef{}, map[string]*ledger.PoolDef{}
	for i := range d.Jobs {
		jobDefs[d.Jobs[i].Name] = &d.Jobs[i]
	}
	for i := range d.Pools {
		poolDefs[d.Pools[i].Name] = &d.Pools[i]
	}
	var stalePools, staleJobs []string
	var otherwise ledger.Assertion
	governs := false
	err := s.read(ctx, "assert", func(t *tx) (err error) {
		if _, governs, err = t.governs(session, false); err != nil {
			return err
		}
		pools, err := defined[poolModel](t, nil, "")
		if err != nil {
			return err
		}
		jobs, err := defined[jobModel](t, nil, "")
		if err != nil {
			return err
		}
		stalePools, staleJobs = stale(pools, poolDefs, poolModel.differs), stale(jobs, jobDefs, jobModel.differs)
		otherwise = ledger.Assertion{Jobs: staleJobs}
		for _, name := range stalePools {
			otherwise.Pools = append(otherwise.Pools, pools[name].other(name))
		}
		return nil
	})
	if err != nil {
		return ledger.Assertion{}, err
	}
	if !governs {
		return otherwise, nil
	}
	judge := d.Now
	if judge == nil {
		judge = func(database time.Time) (time.Time, error) { return database, nil }
	}
	for _, stale := range []struct {
		names []string
		write func(t *tx, config int64, names []string) error
	}{
		{stalePools, func(t *tx, config int64, names []string) error { return t.writePools(config, names, poolDefs) }},
		{staleJobs, func(t *tx, config int64, names []string) error { return t.writeJobs(config, names, jobDefs, judge) }},
	} {
		for part := range slices.Chunk(stale.names, sqlkit.MaxRows) {
			err := s.sure(ctx, "assert", func(t *tx) error {
				if _, err := t.lockConfig(); err != nil {
					return err
				}
				config, still, err := t.governs(session, true)
				if governs = still; err != nil || !still {
					return err
				}
				return stale.write(t, config, part)
			})
			if err != nil || !governs {
				return otherwise, err
			}
		}
	}
	return ledger.Assertion{Governs: true}, nil
}

// lockConfig locks out every other transaction that joins, loads or asserts, until the caller's transaction
// ends, and returns the last configuration number.
func (t *tx) lockConfig() (last int64, err error) {
	found, err := t.One(`SELECT value FROM {meta} WHERE name = ?{for_update}`, []any{"config_counter"}, &last)
	if err == nil && !found {
		err = fmt.Errorf("%w: no config_counter in its meta table", ErrSchema)
	}
	return last, err
}

// governs reports whether no live session has a higher configuration number than this one's.
func (t *tx) governs(session string, lock bool) (config int64, governs bool, err error) {
	own := `SELECT config FROM {sessions} WHERE id = ? AND dead = 0`
	if lock {
		own += `{for_update}`
	}
	found, err := t.One(own, []any{session}, &config)
	if err != nil {
		return 0, false, err
	}
	if !found {
		return 0, false, ledger.ErrSessionDead
	}
	var highest int64
	_, err = t.One(`SELECT COALESCE(MAX(config), 0) FROM {sessions} WHERE dead = 0`, nil, &highest)
	return config, config >= highest, err
}

// stale returns the names of rows that are missing, that differ from their definition, or that have none.
func stale[R, D any](rows map[string]R, defs map[string]*D, differs func(R, *D) bool) []string {
	var names []string
	for name, row := range rows {
		if differs(row, defs[name]) {
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

// Upcoming returns the next due times of the live jobs of the given stripes, in no order.
func (s replica) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	if len(stripes) == 0 {
		return nil, nil
	}
	return s.upcoming(ctx, "upcoming", func(t *tx) *gorm.DB {
		list, args := sqlkit.List(stripes)
		return t.upcoming().Where("stripe IN "+list, args...)
	})
}

// Overdue returns jobs of any stripe whose next due time is at or before until, earliest first, at
// most limit.
func (s replica) Overdue(ctx context.Context, until time.Time, limit int) ([]ledger.Upcoming, error) {
	return s.upcoming(ctx, "overdue", func(t *tx) *gorm.DB { return t.overdue(until, limit) })
}

// upcoming: index jobs_next.
func (t *tx) upcoming() *gorm.DB {
	return table[jobModel](t).Select("name, next_at, waiting_at").Where("next_at > 0")
}

func (t *tx) overdue(until time.Time, limit int) *gorm.DB {
	return t.upcoming().Where("next_at <= ?", micros(until)).Order("next_at").Limit(limit)
}

func (s *Store) upcoming(ctx context.Context, op string, of func(t *tx) *gorm.DB) ([]ledger.Upcoming, error) {
	return get(ctx, s.read, op, func(t *tx) ([]ledger.Upcoming, error) {
		return list(rowsOf(of(t)), func(m *jobModel) ledger.Upcoming {
			return ledger.Upcoming{Job: m.Name, NextAt: fromMicros(m.NextAt), Waits: m.WaitingAt > 0}
		})
	})
}
