package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Jobs returns the rows of the named jobs, or of all that were ever configured, sorted by name.
// Names without a row are left out.
func (s *Store) Jobs(ctx context.Context, names ...string) ([]ledger.JobStatus, error) {
	var all []ledger.JobStatus
	err := s.view(ctx, "jobs", func(t *tx) (err error) {
		if all, err = t.jobStatuses(names); err != nil {
			return err
		}
		rows := make(map[string]*ledger.JobStatus, len(all))
		for i := range all {
			rows[all[i].Name] = &all[i]
		}
		if err := t.countOpen(names, rows); err != nil {
			return err
		}
		if err := t.lastTriggers(names, rows); err != nil {
			return err
		}
		return t.lastSuccesses(names, rows)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// JobNames returns the names, sorted, of at most limit jobs that begin with prefix and come after
// the name after; those that no live configuration has are among them only with retired.
//
// Index: primary key, in its order.
//
// Errors: jobs.ErrUnavailable.
func (s *Store) JobNames(ctx context.Context, prefix, after string, retired bool, limit int) ([]string, error) {
	w := &where{}
	w.and(`name >= ? AND name < ?`, prefix, prefix+"~") // '~' sorts behind whatever a name may hold
	w.and(`name > ?`, after)
	if !retired {
		w.and(`hash <> ''`)
	}
	var names []string
	err := s.view(ctx, "job names", func(t *tx) (err error) {
		names, err = t.ids(`SELECT name FROM {jobs}`+w.text()+` ORDER BY name LIMIT ?`, append(w.args, limit))
		return err
	})
	return names, err
}

func (t *tx) jobStatuses(names []string) ([]ledger.JobStatus, error) {
	var all []ledger.JobStatus
	text, args := ofJobs(`SELECT name, hash, config, cursor_at, next_at, waiting_at, fence, suspended, suspended_by FROM {jobs} j`, `j.name`, names)
	err := t.Query(text+` ORDER BY name`, args, func(scan func(...any) error) error {
		var j ledger.JobStatus
		var cursor, next, waiting int64
		err := scan(&j.Name, &j.Hash, &j.Config, &cursor, &next, &waiting, &j.Fence, &j.Suspended, &j.SuspendedBy)
		j.Cursor, j.NextAt = fromMicros(cursor), ledger.Undecided(fromMicros(next), fromMicros(waiting))
		all = append(all, j)
		return err
	})
	return all, err
}

// countOpen: {tasks} holds nothing else. Index tasks_job, alone.
func (t *tx) countOpen(names []string, rows map[string]*ledger.JobStatus) error {
	text, args := ofJobs(`SELECT job, COUNT(*) FROM {tasks}`, `job`, names)
	if len(names) == 0 {
		text += ` WHERE job > ''`
	}
	return t.Query(text+` GROUP BY job`, args, func(scan func(...any) error) error {
		var name string
		var n int
		if err := scan(&name, &n); err != nil {
			return err
		}
		if j := rows[name]; j != nil {
			j.Open = n
		}
		return nil
	})
}

// lastTriggers: MAX(at) of one job is the end of its range in the primary key.
func (t *tx) lastTriggers(names []string, rows map[string]*ledger.JobStatus) error {
	last, args := ofJobs(`SELECT j.name, (SELECT MAX(m.at) FROM {triggers} m WHERE m.job = j.name) AS last_at FROM {jobs} j`, `j.name`, names)
	return t.Query(`SELECT `+triggerColumns+` FROM (`+last+`) l JOIN {triggers} t ON t.job = l.name AND t.at = l.last_at ORDER BY job, seq`, args,
		func(scan func(...any) error) error {
			trigger, err := scanTrigger(scan)
			if j := rows[trigger.Job]; j != nil && err == nil {
				j.Last = &trigger // of several at one moment the one with the highest seq
			}
			return err
		})
}

// lastSuccesses: the same in index triggers_result.
func (t *tx) lastSuccesses(names []string, rows map[string]*ledger.JobStatus) error {
	last, args := ofJobs(`SELECT j.name, (SELECT MAX(m.at) FROM {triggers} m WHERE m.job = j.name AND m.result = 'succeeded') AS last_at FROM {jobs} j`, `j.name`, names)
	return t.Query(`SELECT t.job, MAX(t.finished_at) FROM (`+last+`) l JOIN {triggers} t ON t.job = l.name AND t.at = l.last_at
			WHERE t.result = 'succeeded' GROUP BY t.job`, args,
		func(scan func(...any) error) error {
			var name string
			var at int64
			if err := scan(&name, &at); err != nil {
				return err
			}
			if j := rows[name]; j != nil {
				j.LastSuccess = fromMicros(at)
			}
			return nil
		})
}

func ofJobs(text, column string, names []string) (string, []any) {
	if len(names) == 0 {
		return text, nil
	}
	return text + ` WHERE ` + column + ` IN (` + sqlkit.Marks(len(names)) + `)`, sqlkit.Texts(names)
}

// SuspendJob sets the override of a job's suspend, or clears it with nil. by is who asked.
// jobs.ErrNotFound for a job that no configuration has.
func (s *Store) SuspendJob(ctx context.Context, name string, override *bool, by string) error {
	return s.override(ctx, "job", name, override, by,
		`SELECT 1 FROM {jobs} WHERE name = ? AND hash <> ''{for_update}`,
		`UPDATE {jobs} SET suspended = ?, suspended_by = ? WHERE name = ?`)
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
		if !found {
			return fmt.Errorf("%s %.64q: %w", noun, name, jobs.ErrNotFound)
		}
		_, err = t.Exec(update, override, clip(by, 255), name)
		return err
	})
}
