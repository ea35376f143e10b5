package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// assertTimeout bounds Load and Assert where the context does not: 100,000 jobs take seconds.
const assertTimeout = time.Minute

// assertedAtOnce is how many rows of jobs or pools a transaction writes. Who decides and claims waits for it, on SQLite also for rows of other jobs: beside a reload
// of 1,000 jobs the longest delay of a start was 54 to 72 ms with 100, 33 to 38 ms with 50, and the reload took a tenth longer.
const assertedAtOnce = 50

// Enter gives the session the number of d's content, see ledger.Configurations.
func (s replica) Enter(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	content := d.Content()
	err = s.sure(ctx, "load", func(t *tx) error { // an unused number does no harm
		last, err := t.lockConfig()
		if err != nil {
			return err
		}
		config, err = t.number(content, last, d.Activate)
		if err != nil {
			return err
		}
		var alive int
		found, err := t.One(`SELECT 1 FROM {sessions} WHERE id = ? AND dead = 0{for_update}`, []any{session}, &alive)
		if err == nil && !found {
			err = ledger.ErrSessionDead
		}
		if err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE {sessions} SET config = ?, config_hash = ?, config_at = ? WHERE id = ?`, config, content, micros(d.At), session); err != nil {
			return err
		}
		return t.keepKinds(config, d.Pools)
	})
	return config, err
}

// number is that of a configuration: its own, or the next one after last, if it was never loaded, or is to be the newest and is not.
// Other sessions that have it get that, too.
//
// Index: primary key of configurations; sessions_dead.
func (t *tx) number(content string, last int64, activate bool) (number int64, err error) {
	known, err := t.One(`SELECT number FROM {configurations} WHERE hash = ?`, []any{content}, &number)
	if err != nil || known && (number == last || !activate) {
		return number, err
	}
	now, err := t.Now()
	if err != nil {
		return 0, err
	}
	if _, err := t.Exec(`UPDATE {meta} SET value = ? WHERE name = ?`, strconv.FormatInt(last+1, 10), "config_counter"); err != nil {
		return 0, err
	}
	if err := t.Upsert("{configurations} (hash, number, at)", "hash", [][]any{{content, last + 1, micros(now)}}); err != nil {
		return 0, err
	}
	if known {
		_, err = t.Exec(`UPDATE {sessions} SET config = ? WHERE dead = 0 AND config_hash = ?`, last+1, content)
	}
	return last + 1, err
}

// SetDiffers keeps with the session what the governing configuration has otherwise.
func (s replica) SetDiffers(ctx context.Context, session, what string) error {
	return s.autocommit(ctx, "set what differs", func(t *tx) error {
		_, err := t.Exec(`UPDATE {sessions} SET differs = ? WHERE id = ? AND dead = 0`, clip.Text(what, 512), session)
		return err
	})
}

// Load enters the session, and asserts d.
func (s replica) Load(ctx context.Context, session string, d ledger.Definitions) (config int64, err error) {
	if config, err = s.Enter(ctx, session, d); err != nil {
		return 0, err
	}
	if _, err := s.Assert(ctx, session, d); err != nil {
		return 0, err
	}
	return config, nil
}

// Assert makes d hold if no live session has a higher configuration number than this one; see ledger.Configurations. While d.Now
// refuses the clock, no job's row is written. Rows are written in batches. Each is a transaction that checks that the session
// still governs, so that other replicas wait for milliseconds. Where d follows what the session has asserted before, the rows of other jobs than
// d.Changed are not read; if a number was given out meanwhile, they are.
func (s replica) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, assertTimeout)
		defer cancel()
	}
	got, err := s.assert(ctx, session, d)
	if errors.Is(err, errOvertaken) {
		d.Since = 0
		got, err = s.assert(ctx, session, d)
	}
	return got, err
}

// errOvertaken: a number was given out since it was read that none was.
var errOvertaken = errors.New("another configuration was loaded")

func (s replica) assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	poolDefs := map[string]*ledger.PoolDef{}
	var jobDefs map[string]*ledger.JobDef
	for i := range d.Pools {
		poolDefs[d.Pools[i].Name] = &d.Pools[i]
	}
	var stalePools, staleJobs []string
	var otherwise ledger.Assertion
	governs, followed := false, false
	err := s.read(ctx, "assert", func(t *tx) (err error) {
		if _, governs, err = t.governs(session, d.Number, false); err != nil {
			return err
		}
		pools, err := defined[poolModel](t, nil, "")
		if err != nil {
			return err
		}
		if followed, err = t.followed(d); err != nil {
			return err
		}
		jobDefs = definitionsOf(d, followed)
		jobs, err := t.definedJobs(d, followed)
		if err != nil {
			return err
		}
		stalePools, staleJobs = stale(pools, poolDefs, poolModel.differs), stale(jobs, jobDefs, jobModel.unwritten)
		otherwise = ledger.Assertion{Jobs: those(staleJobs, func(name string) bool { return jobs[name].differs(jobDefs[name]) })}
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
	more := false // tasks of retired jobs may be left
	for _, stale := range []struct {
		names []string
		write func(t *tx, config int64, names []string) error
	}{
		{stalePools, func(t *tx, config int64, names []string) error { return t.writePools(config, names, poolDefs) }},
		{staleJobs, func(t *tx, config int64, names []string) error {
			left, err := t.writeJobs(config, names, jobDefs, d, judge)
			more = more || left
			return err
		}},
	} {
		for part := range slices.Chunk(stale.names, assertedAtOnce) {
			err := s.sure(ctx, "assert", func(t *tx) error {
				last, err := t.lockConfig()
				if err != nil {
					return err
				}
				if followed && !d.Followed(last) {
					return errOvertaken
				}
				config, still, err := t.governs(session, d.Number, true)
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
	holds := ledger.Assertion{Governs: true, Followed: followed}
	if more {
		return holds, s.cancelRetired(ctx)
	}
	return holds, nil
}

// followed reads whether d follows what the session has asserted before.
func (t *tx) followed(d ledger.Definitions) (bool, error) {
	if d.Since == 0 {
		return false, nil
	}
	var last int64
	found, err := t.One(`SELECT value FROM {meta} WHERE name = ?`, []any{"config_counter"}, &last)
	return found && d.Followed(last), err
}

// definitionsOf are those of all jobs or, where d is followed, of those that have changed and are left.
func definitionsOf(d ledger.Definitions, followed bool) map[string]*ledger.JobDef {
	all := map[string]*ledger.JobDef{}
	if !followed {
		for i := range d.Jobs {
			all[d.Jobs[i].Name] = &d.Jobs[i]
		}
		return all
	}
	for _, name := range d.Changed {
		if i, has := slices.BinarySearchFunc(d.Jobs, name, func(j ledger.JobDef, name string) int { return strings.Compare(j.Name, name) }); has {
			all[name] = &d.Jobs[i]
		}
	}
	return all
}

// definedJobs reads the rows of all jobs or, where d is followed, of those that have changed.
func (t *tx) definedJobs(d ledger.Definitions, followed bool) (map[string]jobModel, error) {
	if !followed {
		return defined[jobModel](t, nil, "")
	}
	all := map[string]jobModel{}
	for names := range slices.Chunk(d.Changed, sqlkit.MaxRows) {
		some, err := defined[jobModel](t, names, "")
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// cancelRetired cancels the pending tasks of all jobs that no configuration has any more, in portions.
func (s replica) cancelRetired(ctx context.Context) error {
	for {
		n, err := get(ctx, s.settled, "cancel tasks of retired jobs", func(t *tx) (int, error) { return cancelRetired(t, sqlkit.MaxRows) })
		if err != nil || n < sqlkit.MaxRows {
			return err
		}
	}
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

// governs reports whether no live session has a higher configuration number than this one's, which is to be want, unless that is 0.
func (t *tx) governs(session string, want int64, lock bool) (config int64, governs bool, err error) {
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
	if want != 0 && config != want {
		return 0, false, fmt.Errorf("%w: %d, not %d", ledger.ErrRenumbered, config, want)
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

// UpcomingOf returns the next due times of the live ones among these jobs, in no order.
func (s replica) UpcomingOf(ctx context.Context, jobs []string) (all []ledger.Upcoming, err error) {
	for names := range slices.Chunk(jobs, sqlkit.MaxRows) {
		some, err := s.upcoming(ctx, "upcoming of jobs", func(t *tx) *gorm.DB { return t.upcomingOf(names) })
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// upcomingOf: primary key.
func (t *tx) upcomingOf(names []string) *gorm.DB { return t.upcoming().Where("name IN ?", names) }

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
			return ledger.Upcoming{Job: m.Name, NextAt: fromMicros(m.NextAt), Waits: m.WaitingAt != 0}
		})
	})
}
