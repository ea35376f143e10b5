package store

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

const (
	rowsBeside   = 50          // of the ledger that are read on either side of a due time
	lateFrom     = time.Second // what is decided later than this is asked about
	quietRows    = 500         // of all jobs, that are read on either side of it
	sessionsRead = 1000        // dead sessions
)

// WhyJob returns what is known of why a due time of a job ran or did not run, or of what may stop it, all of one moment. However much the store
// holds, it reads a bounded number of rows. It implements ledger.API.
//
// Errors: jobs.ErrNotFound for a job that was never configured, jobs.ErrUnavailable.
func (s views) WhyJob(ctx context.Context, q ledger.JobQuestion) (ledger.JobFacts, error) {
	return get(ctx, s.snapshot, "why of a job", func(t *tx) (f ledger.JobFacts, err error) {
		if f.At, err = t.Now(); err != nil {
			return f, err
		}
		if err := t.whyJobRow(q.Job, &f); err != nil {
			return f, err
		}
		if f.About = q.At; f.About.IsZero() {
			f.About = f.Job.NextAt
		}
		if err := t.whyRows(&f); err != nil {
			return f, err
		}
		if err := t.whyDefinition(&f); err != nil {
			return f, err
		}
		if f.Row != nil {
			return f, t.whyDecided(&f)
		}
		return f, t.whyNext(q, &f)
	})
}

// whyJobRow: primary key of jobs.
func (t *tx) whyJobRow(name string, f *ledger.JobFacts) error {
	found := false
	err := each(t.rows("SELECT "+jobColumns+" FROM {jobs} WHERE name=?", name), func(m *jobModel) {
		f.Job, f.BusyUntil, found = m.status(f.At), fromMicros(m.BusyUntil), true
	})
	if err == nil && !found {
		err = fmt.Errorf("job %.64q: %w", name, jobs.ErrNotFound)
	}
	return err
}

// whyRows reads the rows of the job next to the due time, and the orders of runs at it.
//
// Index: primary key of triggers, ranges of it; primary key of orders.
func (t *tx) whyRows(f *ledger.JobFacts) error {
	name, about := f.Job.Name, micros(f.About)
	var first int64
	_, err := t.One("SELECT at FROM {triggers}{by_key} WHERE job=? AND seq=0 ORDER BY at LIMIT 1", []any{name}, &first) // backfills come before it
	if f.First = fromMicros(first); err != nil || about == 0 {
		return err
	}
	var ordered []string
	err = each(t.rows("SELECT "+triggerColumns+" FROM {triggers}{by_key} WHERE job=? AND at<=? ORDER BY at DESC, seq DESC LIMIT ?", name, about, rowsBeside), func(m *triggerModel) {
		g := m.trigger()
		switch covers := m.At == about || m.UntilAt >= about; {
		case m.Seq > 0:
			if m.At == about {
				f.ByHand = append(f.ByHand, g)
				if g.Order != "" {
					ordered = append(ordered, g.Order)
				}
			}
		case covers && f.Row == nil:
			f.Row = &ledger.DecidedRow{Trigger: g, Overdue: m.Overdue, ClockOffset: micro(m.ClockOffset), Took: micro(m.Took), LockTook: micro(m.LockTook)}
		case !covers && f.Before == nil:
			f.Before = &g
		}
	})
	if err != nil {
		return err
	}
	if len(ordered) > 0 {
		if f.Orders, err = t.orders("WHERE {in name id} ORDER BY id", sqlkit.Keys(sqlkit.Distinct(ordered))); err != nil {
			return err
		}
	}
	return each(t.rows("SELECT "+triggerColumns+" FROM {triggers}{by_key} WHERE job=? AND at>? ORDER BY at, seq LIMIT ?", name, about, rowsBeside), func(m *triggerModel) {
		if m.Seq == 0 && f.After == nil {
			g := m.trigger()
			f.After = &g
		}
	})
}

// micro is a length in microseconds.
func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// whyDefinition reads the definition that the row names, else the one that governed then, or that governs if the due time is to come.
//
// Index: primary key and definitions_since of definitions, the range of the job.
func (t *tx) whyDefinition(f *ledger.JobFacts) error {
	name, known := f.Job.Name, int64(0)
	_, err := t.One("SELECT COALESCE(MIN(first_at), 0) FROM {definitions}{by_key} WHERE job=?", []any{name}, &known)
	if f.Known = fromMicros(known); err != nil {
		return err
	}
	take := func(m *definitionModel) { d := m.definition(); f.Definition = &d }
	if f.Row != nil && f.Row.Definition != "" {
		return each(t.rows("SELECT "+definitionColumns+" FROM {definitions}{by_key} WHERE job=? AND definition=?", name, f.Row.Definition), take)
	}
	if f.Row != nil {
		return nil // of a program without a history, or decided by an edit
	}
	until := f.About
	if until.IsZero() || until.After(f.At) {
		until = f.At
	}
	return each(t.rows("SELECT "+definitionColumns+" FROM {definitions}{index}{definitions}_since{end} WHERE job=? AND since_at<=? ORDER BY since_at DESC, definition DESC LIMIT 1",
		name, micros(until)), take)
}

// taskNamed finds the task that a sentence of a skipped due time names.
var taskNamed = regexp.MustCompile(`\(task ([0-9a-f-]{36})\)`)

// whyDecided reads what belongs to a row.
func (t *tx) whyDecided(f *ledger.JobFacts) (err error) {
	if f.Row.TaskID != "" {
		if f.Task, err = t.whyTask(f.Row.TaskID); err != nil {
			return err
		}
	}
	if named := taskNamed.FindStringSubmatch(f.Row.Reason); named != nil && f.Row.TaskID == "" {
		if f.Named, err = t.whyTask(named[1]); err != nil {
			return err
		}
	}
	if f.Row.ReasonCode == reason.Suspended {
		if f.Suspension, err = t.suspension(f.Job.Name, f.Row.DecidedAt); err != nil {
			return err
		}
	}
	if f.Row.DecidedAt.Sub(f.About) <= lateFrom {
		return nil
	}
	f.Quiet, err = t.quiet(f.About, f.Row)
	return err
}

// whyTask is a task, open or not; nil if there is none any more.
//
// Index: primary keys of tasks and done.
func (t *tx) whyTask(id string) (*jobs.Task, error) {
	open, err := t.openTasks(taskFacts, " WHERE id=?", id)
	if err != nil || len(open) > 0 {
		if len(open) > 0 {
			return &open[0].Task, nil
		}
		return nil, err
	}
	var task *jobs.Task
	err = each(t.rows("SELECT "+doneFacts+" FROM {done} WHERE id=?", id), func(m *doneModel) { is := m.Task.task(); task = &is })
	return task, err
}

// suspension is the last entry of the audit, of the latest before a moment, with which the API suspended the job, if it did not resume it since, nor suspend
// or resume jobs by their labels: the audit does not say whether this one was among those.
//
// Index: audit_at, a range from its end.
func (t *tx) suspension(job string, until time.Time) (e wire.AuditEntry, err error) {
	err = each(t.rows(`SELECT at, who, remote, action FROM (SELECT at, who, remote, action, object, status FROM {audit}{index}{audit}_at{end} WHERE at<=? ORDER BY at DESC LIMIT ?) AS latest
		WHERE status<300 AND (action IN ('POST /jobs/{name}/suspend', 'POST /jobs/{name}/resume') AND object=? OR action IN ('POST /suspend/jobs', 'POST /resume/jobs')) ORDER BY at DESC LIMIT 1`,
		micros(until), pauseLook, job), func(m *auditModel) {
		if m.Action == "POST /jobs/{name}/suspend" {
			e = m.entry()
		}
	})
	return e, err
}

// quiet looks for what was decided between a due time and the decision of its row, and for who lived then.
//
// Index: triggers_at, a range on either side; sessions_dead; audit_at.
func (t *tx) quiet(about time.Time, row *ledger.DecidedRow) (*ledger.Quiet, error) {
	q := &ledger.Quiet{Until: row.DecidedAt}
	edge := row.DecidedAt.Add(-lateFrom)
	const beside = " FROM {triggers}{index}{triggers}_at{end} WHERE at"
	err := each(t.rows("SELECT job, at, replica, decided_at"+beside+">=? AND at<=? ORDER BY at LIMIT ?", micros(about), micros(row.DecidedAt), quietRows), func(m *triggerModel) {
		g := m.trigger()
		switch {
		case g.DecidedAt.Before(edge) && (q.Other == nil || g.DecidedAt.Before(q.Other.DecidedAt)):
			q.Other = &g
		case g.DecidedAt.Before(q.Until) && !g.DecidedAt.Before(edge):
			q.Until = g.DecidedAt
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(t.rows("SELECT job, at, replica, decided_at"+beside+"<? ORDER BY at DESC LIMIT ?", micros(about), quietRows), func(m *triggerModel) {
		if g := m.trigger(); g.DecidedAt.Before(edge) && g.DecidedAt.After(q.From) {
			q.From = g.DecidedAt
			if g.DecidedAt.After(about) && (q.Other == nil || g.DecidedAt.Before(q.Other.DecidedAt)) {
				q.Other = &g
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for _, dead := range []int{0, 1} {
		err := each(t.rows("SELECT "+sessionColumns+" FROM {sessions}{index}{sessions}_dead{end} WHERE dead=? AND pool='' LIMIT ?", dead, sessionsRead), func(m *sessionModel) {
			p := m.peer()
			switch {
			case !p.JoinedAt.After(about) && p.SeenAt.After(about):
				q.Live = append(q.Live, p)
			case p.Replica == row.Replica && p.JoinedAt.After(about) && !p.JoinedAt.After(row.DecidedAt):
				q.Decider = &p
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return q, t.pausedOver(about, q)
}

// whyNext reads what may stop a due time that was not decided.
//
// Index: tasks_job; done_job; those of Why.
func (t *tx) whyNext(q ledger.JobQuestion, f *ledger.JobFacts) error {
	open, err := t.openTasks(taskFacts, " WHERE job>'' AND job=? ORDER BY id LIMIT ?", q.Job, ledger.WhyTasks)
	if err != nil {
		return err
	}
	f.Open = mapped(open, func(r openTask) jobs.Task { return r.Task })
	f.OpenN, err = t.counted("SELECT COUNT(*) FROM (SELECT id FROM {tasks} WHERE job>'' AND job=? LIMIT ?) AS r", q.Job, ledger.WhyMost+1)
	if err != nil {
		return err
	}
	if f.BusyUntil.After(f.At) {
		lost, err := t.lostTasks(f.At, []string{q.Job})
		if err != nil {
			return err
		}
		f.Lost = lost[q.Job]
	}
	if f.Job.Suspended {
		if f.Suspension, err = t.suspension(q.Job, f.At); err != nil {
			return err
		}
	}
	if f.Next.Pausing, err = t.pause(f.At); err != nil || q.Pool == "" {
		return err
	}
	f.Next = ledger.Facts{At: f.At, Pausing: f.Next.Pausing, Task: jobs.Task{Pool: q.Pool, Kind: q.Kind, Job: q.Job, State: jobs.StatePending, RunAt: f.About, CreatedAt: f.About}}
	_, err = t.whyWhere(q.Pool, q.Kind, &f.Next)
	return err
}
