package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Jobs returns the state of the named jobs, or of all that were ever configured, sorted by name. Names that no configuration ever
// had are left out. Fields that only the configuration of a replica has are empty.
func (s *Store) Jobs(ctx context.Context, names ...string) ([]wire.Job, error) {
	all, err := views{s}.Jobs(ctx, names...)
	return mapped(all, func(j ledger.JobStatus) wire.Job { return j.Job }), err
}

// Jobs returns the rows of the named jobs, or of all.
func (s views) Jobs(ctx context.Context, names ...string) ([]ledger.JobStatus, error) {
	return get(ctx, s.view, "jobs", func(t *tx) ([]ledger.JobStatus, error) {
		now, err := t.Now()
		if err != nil {
			return nil, err
		}
		where, args := ofJobs("name", names)
		all, err := list(t.rows("SELECT "+jobColumns+" FROM {jobs}"+where+" ORDER BY name", args...), func(m *jobModel) ledger.JobStatus { return m.status(now) })
		if err != nil {
			return nil, err
		}
		rows := make(map[string]*ledger.JobStatus, len(all))
		for i := range all {
			rows[all[i].Name] = &all[i]
		}
		if err := t.countOpen(names, rows); err != nil {
			return nil, err
		}
		if err := t.lastTriggers(names, rows); err != nil {
			return nil, err
		}
		return all, t.lastSuccesses(names, rows)
	})
}

// JobNames returns the names, sorted, of at most limit jobs that begin with prefix and come after
// the name after; those that no live configuration has are among them only with retired.
//
// Index: primary key, in its order.
//
// Errors: jobs.ErrUnavailable.
func (s views) JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error) {
	return get(ctx, s.view, "job names", func(t *tx) ([]string, error) {
		q := table[jobModel](t).Where("name >= ? AND name < ?", prefix, prefix+"~") // '~' sorts after every character of a name
		if !retired {
			q = q.Where("hash <> ''")
		}
		return column[string](rowsOf(q.Where("name > ?", after).Order("name").Limit(limit).Select("name")))
	})
}

// countOpen: {tasks} holds nothing else. Index tasks_job, alone.
func (t *tx) countOpen(names []string, of map[string]*ledger.JobStatus) error {
	where, args := " WHERE job > ''", []any(nil)
	if len(names) > 0 {
		where, args = ofJobs("job", names)
		where += " AND job > ''"
	}
	return each(t.rows("SELECT job, COUNT(*) AS n FROM {tasks}"+where+" GROUP BY job", args...), func(c *tally) {
		if j := of[c.Job]; j != nil {
			j.Open = c.N
		}
	})
}

// lastTriggers: MAX(at) of one job is the end of its range in the primary key.
func (t *tx) lastTriggers(names []string, of map[string]*ledger.JobStatus) error {
	where, args := ofJobs("j.name", names)
	return each(t.rows("SELECT "+triggerColumns+" FROM (SELECT j.name, (SELECT MAX(m.at) FROM {triggers} m WHERE m.job = j.name) AS last_at FROM {jobs} j"+where+`) l
		JOIN {triggers} t ON t.job = l.name AND t.at = l.last_at ORDER BY job, seq`, args...), func(m *triggerModel) {
		if j := of[m.Job]; j != nil {
			trigger := m.trigger()
			j.Last = &trigger // of several at one moment the one with the highest seq
		}
	})
}

// lastSuccesses: the same in index triggers_result, which has no rows without a result.
func (t *tx) lastSuccesses(names []string, of map[string]*ledger.JobStatus) error {
	where, args := ofJobs("j.name", names)
	return each(t.rows(`SELECT t.job, MAX(t.finished_at) AS finished_at FROM (
			SELECT j.name, (SELECT MAX(m.at) FROM {triggers} m WHERE m.job = j.name AND m.result = 'succeeded' AND m.result > '') AS last_at FROM {jobs} j`+where+`) l
		JOIN {triggers} t ON t.job = l.name AND t.at = l.last_at WHERE t.result = 'succeeded' GROUP BY t.job`, args...), func(m *triggerModel) {
		if j := of[m.Job]; j != nil {
			j.LastSuccess = fromMicros(m.FinishedAt)
		}
	})
}

func ofJobs(column string, names []string) (where string, args []any) {
	if len(names) == 0 {
		return "", nil
	}
	return " WHERE {in name " + column + "}", []any{sqlkit.Keys(names)}
}

func (s *Store) override(ctx context.Context, noun, name string, override *bool, by, lock, update string) error {
	if override == nil {
		by = ""
	}
	return s.sure(ctx, "override "+noun, func(t *tx) error {
		var n int
		found, err := t.One(lock, []any{name}, &n)
		if err != nil {
			return err
		}
		if !found && noun == "pool" {
			return t.unknownPool(name)
		}
		if !found {
			return fmt.Errorf("%s %.64q: %w", noun, name, jobs.ErrNotFound)
		}
		_, err = t.Exec(update, override, clip.Text(by, 255), name)
		return err
	})
}
