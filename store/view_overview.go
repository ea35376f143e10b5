package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// errorShown is how many bytes of an error an overview has.
const errorShown = 500

// Overview reads a summary, at most rows (1 … 100) of each kind. However much
// the store holds, it reads a few rows of each, the running tasks, those that failed or were lost within the last hour, and one
// small row for each job.
func (s views) Overview(ctx context.Context, rows int) (ledger.Overview, error) {
	rows = min(max(rows, 1), 100)
	return get(ctx, s.view, "overview", func(t *tx) (o ledger.Overview, err error) {
		if o.At, err = t.Now(); err != nil {
			return o, err
		}
		pause, err := t.pause(o.At)
		if err != nil {
			return o, err
		}
		o.Paused = pause.View()
		if _, err := t.One(`SELECT COUNT(*) FROM {jobs} WHERE hash <> ''`, nil, &o.Jobs); err != nil {
			return o, err
		}
		if o.Next, err = t.nextDue(o.At, rows); err != nil {
			return o, err
		}
		if o.Recent, err = t.triggerPage(wire.TriggerFilter{}, rows); err != nil {
			return o, err
		}
		if o.Running, err = t.longestRunning(rows); err != nil {
			return o, err
		}
		if o.Wrong, err = t.wrong(o.At.Add(-wrongWithin)); err != nil {
			return o, err
		}
		if o.Trouble, err = t.troubles(rows, o.Wrong); err != nil {
			return o, err
		}
		o.Failing, o.Broken, err = t.broken(rows)
		return o, err
	})
}

// NextDue reads the jobs that are due first, one row each.
func (s views) NextDue(ctx context.Context, n int) ([]ledger.NextDue, error) {
	return get(ctx, s.view, "next due times", func(t *tx) ([]ledger.NextDue, error) {
		now, err := t.Now()
		if err != nil {
			return nil, err
		}
		return t.nextDue(now, n)
	})
}

// nextDue: index jobs_next, in its order. A retired job has no next time.
func (t *tx) nextDue(now time.Time, n int) ([]ledger.NextDue, error) {
	return list(rowsOf(table[jobModel](t).Table("{jobs} {index}{jobs}_next{end}").Where("next_at > 0").Order("next_at, stripe").Limit(n)),
		func(m *jobModel) ledger.NextDue {
			at, start := m.due()
			return ledger.NextDue{Job: m.Name, At: at, StartAt: start, Suspended: m.suspension().At(now).Suspended, SkipNext: m.SkipNext}
		})
}

// longestRunning sorts the tasks that run, which are few. Index tasks_claim.
func (t *tx) longestRunning(n int) ([]ledger.RunningTask, error) {
	q := t.gorm().Table("{tasks} {index}{tasks}_claim{end}").Select("id, pool, kind, job, trigger_at, started_at, attempt, replica, progress").
		Where("state = 2").Order("started_at, id").Limit(n)
	return list(rowsOf(q), func(m *taskFields) ledger.RunningTask {
		done, text := ledger.ReadProgress(m.Progress)
		return ledger.RunningTask{
			TaskID: m.ID, Pool: m.Pool, Kind: m.Kind, Job: m.Job, Due: fromMicros(m.TriggerAt), Since: fromMicros(m.StartedAt), Attempt: m.Attempt, Replica: string(m.Replica),
			Progress: done, ProgressText: text,
		}
	})
}

const (
	wrongWithin = time.Hour
	wrongMost   = 100 // jobs, and kinds in pools
)

const troubleColumns = "id, pool, kind, job, trigger_at, state, attempt, replica, exit_code, reason, reason_code, SUBSTR(error, 1, ?) AS error, finished_at"

func trouble(m *taskFields) ledger.Trouble {
	return ledger.Trouble{
		TaskID: m.ID, Pool: m.Pool, Kind: m.Kind, Job: m.Job, Due: fromMicros(m.TriggerAt), State: m.State, Attempt: m.Attempt, Replica: string(m.Replica),
		ExitCode: m.ExitCode, Reason: m.Reason, ReasonCode: m.ReasonCode, Error: strings.ToValidUTF8(string(m.Error), ""), At: fromMicros(m.FinishedAt),
	}
}

// troubles merges the latest failed and lost tasks, and those of each wrong thing, index done_state, with the latest
// missed due times, index triggers_outcome. The latest task of each wrong thing comes before a second one of another.
func (t *tx) troubles(n int, wrong []ledger.TroubleCount) ([]ledger.Trouble, error) {
	var all []ledger.Trouble
	add := func(state string, n int, where ...any) error {
		q := t.gorm().Table("{done} {index}{done}_state{end}").Select(troubleColumns, errorShown).Where("state = ?", state)
		if len(where) > 0 {
			q = q.Where(where[0], where[1:]...)
		}
		latest, err := list(rowsOf(q.Order("finished_at DESC").Limit(n)), trouble)
		all = append(all, latest...)
		return err
	}
	for _, state := range []jobs.State{jobs.StateFailed, jobs.StateLost} {
		if err := add(string(state), n); err != nil {
			return nil, err
		}
	}
	shown := map[ledger.TroubleCount]bool{}
	for _, r := range all {
		shown[wrongOf(r)] = true
	}
	for _, w := range wrong[:min(n, len(wrong))] {
		if shown[ledger.TroubleCount{State: w.State, Job: w.Job, Pool: w.Pool, Kind: w.Kind}] {
			continue
		}
		if err := add(w.State, 1, "finished_at = ? AND job = ? AND pool = ? AND kind = ?", micros(w.Last), w.Job, w.Pool, w.Kind); err != nil {
			return nil, err
		}
	}
	missed, err := t.triggerPage(wire.TriggerFilter{Outcome: jobs.Missed}, n)
	if err != nil {
		return nil, err
	}
	for _, m := range missed {
		all = append(all, ledger.Trouble{
			State: string(jobs.Missed), At: m.DecidedAt, Job: m.Job, Due: m.At, Count: m.Count, Replica: m.Replica, Reason: m.Reason, ReasonCode: m.ReasonCode,
		})
	}
	byTime := func(a, b ledger.Trouble) int { return b.At.Compare(a.At) }
	slices.SortStableFunc(all, byTime)
	var first, more []ledger.Trouble
	seen := map[ledger.TroubleCount]bool{}
	for _, r := range all {
		if w := wrongOf(r); !seen[w] {
			seen[w] = true
			first = append(first, r)
		} else {
			more = append(more, r)
		}
	}
	all = append(first, more...)
	all = all[:min(n, len(all))]
	slices.SortStableFunc(all, byTime)
	return all, nil
}

// wrongOf is the group in which a trouble is counted.
func wrongOf(r ledger.Trouble) ledger.TroubleCount {
	return ledger.TroubleCount{State: r.State, Job: r.Job, Pool: r.Pool, Kind: r.Kind}
}

// wrong counts what failed or was lost since a moment: a range of index done_state for each state, and a row for each
// such end. Successes are not among them.
func (t *tx) wrong(since time.Time) ([]ledger.TroubleCount, error) {
	var all []ledger.TroubleCount
	for _, state := range []jobs.State{jobs.StateFailed, jobs.StateLost} {
		err := each(t.rows(`SELECT job, pool, kind, COUNT(*) AS n, MAX(finished_at) AS last FROM {done}{index}{done}_state{end}
			WHERE state = ? AND finished_at > ? GROUP BY job, pool, kind`, string(state), micros(since)), func(c *tally) {
			all = append(all, ledger.TroubleCount{State: string(state), Job: c.Job, Pool: c.Pool, Kind: c.Kind, Count: c.N, Last: fromMicros(c.Last)})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b ledger.TroubleCount) int { return b.Last.Compare(a.Last) })
	return all[:min(wrongMost, len(all))], nil
}

// broken counts the failing jobs, and adds the reasons of the first n. The primary key of {standings} has
// all jobs, each a short row.
func (t *tx) broken(n int) (count int, all []ledger.FailingJob, err error) {
	const failing = " FROM {standings} s JOIN {jobs} j ON j.name = s.name WHERE s.kind = 'job' AND s.failing = 1 AND j.hash <> ''"
	if _, err := t.One("SELECT COUNT(*)"+failing, nil, &count); err != nil || count == 0 {
		return 0, nil, err
	}
	all, err = list(t.rows("SELECT s.name, s.last_success_at, s.last_end_at"+failing+" ORDER BY s.last_end_at DESC, s.name LIMIT ?", n), func(m *standingModel) ledger.FailingJob {
		return ledger.FailingJob{Job: m.Name, LastSuccess: fromMicros(m.LastSuccessAt), LastEnd: fromMicros(m.LastEndAt)}
	})
	if err != nil {
		return 0, nil, err
	}
	reasons, err := t.reasons(all)
	for i := range all {
		r := reasons[all[i].Job]
		all[i].Reason, all[i].ReasonCode = r.text, r.code
	}
	return count, all, err
}

// latestReason is why a job's latest due time ended without success.
type latestReason struct {
	text string
	code reason.Code
}

// reasons reads, for each job, its latest due time that ended without success: primary key,
// backwards, a few rows, since these jobs fail now. One statement with a list of jobs reads all triggers of each on MariaDB.
func (t *tx) reasons(of []ledger.FailingJob) (map[string]latestReason, error) {
	var parts []string
	var names []any
	for _, b := range of {
		parts = append(parts, `SELECT * FROM (SELECT job, outcome, result, reason, reason_code FROM {triggers}
			WHERE job = ? AND outcome IN ('ran', 'lost', 'missed') AND result <> 'succeeded' ORDER BY at DESC, seq DESC LIMIT 1) AS one`)
		names = append(names, b.Job)
	}
	reasons := map[string]latestReason{}
	if len(parts) == 0 {
		return reasons, nil
	}
	err := each(t.rows(strings.Join(parts, ` UNION ALL `), names...), func(m *triggerModel) {
		r := latestReason{m.Reason, m.ReasonCode}
		if word := cmp.Or(m.Result, m.Outcome); !strings.HasPrefix(r.text, word) {
			r.text = strings.TrimSuffix(word+": "+r.text, ": ")
		}
		reasons[m.Job] = r
	})
	return reasons, err
}
