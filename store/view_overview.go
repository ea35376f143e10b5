package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// errorShown is how many bytes of an error an overview has.
const errorShown = 500

// Overview reads what a person looks at first, at most rows (1 … 100) of each kind. However much
// the store holds, it reads a few rows of each, the tasks that run, those that went wrong within the last hour, and one
// small row for each job.
func (s *Store) Overview(ctx context.Context, rows int) (ledger.Overview, error) {
	rows = min(max(rows, 1), 100)
	var o ledger.Overview
	err := s.view(ctx, "overview", func(t *tx) (err error) {
		if o.At, err = t.Now(); err != nil {
			return err
		}
		if _, err := t.One(`SELECT COUNT(*) FROM {jobs} WHERE hash <> ''`, nil, &o.Jobs); err != nil {
			return err
		}
		if o.Next, err = t.nextDue(rows); err != nil {
			return err
		}
		if o.Recent, err = t.triggerPage(ledger.TriggerFilter{}, rows); err != nil {
			return err
		}
		if o.Running, err = t.longestRunning(rows); err != nil {
			return err
		}
		if o.Wrong, err = t.wrong(o.At.Add(-wrongWithin)); err != nil {
			return err
		}
		if o.Trouble, err = t.trouble(rows, o.Wrong); err != nil {
			return err
		}
		o.Failing, o.Broken, err = t.broken(rows)
		return err
	})
	return o, err
}

// nextDue: index jobs_next, in its order. A retired job has no next time.
func (t *tx) nextDue(n int) ([]ledger.Next, error) {
	var all []ledger.Next
	err := t.Query(`SELECT name, next_at, waiting_at, suspended FROM {jobs}{index}{jobs}_next{end} WHERE next_at > 0 ORDER BY next_at, stripe LIMIT ?`, []any{n},
		func(scan func(...any) error) error {
			var next ledger.Next
			var at, waiting int64
			err := scan(&next.Job, &at, &waiting, &next.Suspended)
			next.At = ledger.Undecided(fromMicros(at), fromMicros(waiting))
			all = append(all, next)
			return err
		})
	return all, err
}

// longestRunning sorts the tasks that run, which are few. Index tasks_claim.
func (t *tx) longestRunning(n int) ([]ledger.Running, error) {
	var all []ledger.Running
	err := t.Query(`SELECT id, pool, kind, job, trigger_at, started_at, attempt, replica FROM {tasks}{index}{tasks}_claim{end}
		WHERE state = 2 ORDER BY started_at, id LIMIT ?`, []any{n}, func(scan func(...any) error) error {
		var r ledger.Running
		var due, since int64
		err := scan(&r.TaskID, &r.Pool, &r.Kind, &r.Job, &due, &since, &r.Attempt, &r.Replica)
		r.Due, r.Since = fromMicros(due), fromMicros(since)
		all = append(all, r)
		return err
	})
	return all, err
}

const (
	wrongWithin = time.Hour
	wrongMost   = 100 // jobs, and kinds in pools
)

const troubleColumns = `id, pool, kind, job, trigger_at, attempt, replica, exit_code, reason, reason_code, SUBSTR(error, 1, ?), finished_at`

// trouble merges the latest failed and lost tasks, and those of each wrong thing, index done_state, with the latest
// missed due times, index triggers_outcome. The latest task of each wrong thing comes before a second one of another.
func (t *tx) trouble(n int, wrong []ledger.Wrong) ([]ledger.Trouble, error) {
	var all []ledger.Trouble
	read := func(state jobs.State, where string, args ...any) error {
		return t.Query(`SELECT `+troubleColumns+` FROM {done}{index}{done}_state{end} WHERE state = ?`+where+` ORDER BY finished_at DESC LIMIT ?`,
			slices.Concat([]any{errorShown, string(state)}, args), func(scan func(...any) error) error {
				r := ledger.Trouble{State: string(state)}
				var due, ended int64
				var failure []byte
				err := scan(&r.TaskID, &r.Pool, &r.Kind, &r.Job, &due, &r.Attempt, &r.Replica, &r.ExitCode, &r.Reason, &r.ReasonCode, &failure, &ended)
				r.Due, r.At, r.Error = fromMicros(due), fromMicros(ended), strings.ToValidUTF8(string(failure), "")
				all = append(all, r)
				return err
			})
	}
	for _, state := range []jobs.State{jobs.StateFailed, jobs.StateLost} {
		if err := read(state, ``, n); err != nil {
			return nil, err
		}
	}
	shown := map[ledger.Wrong]bool{}
	for _, r := range all {
		shown[wrongOf(r)] = true
	}
	for _, w := range wrong[:min(n, len(wrong))] {
		if shown[ledger.Wrong{State: w.State, Job: w.Job, Pool: w.Pool, Kind: w.Kind}] {
			continue
		}
		err := read(jobs.State(w.State), ` AND finished_at = ? AND job = ? AND pool = ? AND kind = ?`, micros(w.Last), w.Job, w.Pool, w.Kind, 1)
		if err != nil {
			return nil, err
		}
	}
	missed, err := t.triggerPage(ledger.TriggerFilter{Outcome: jobs.Missed}, n)
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
	seen := map[ledger.Wrong]bool{}
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

// wrongOf is what a trouble is counted with.
func wrongOf(r ledger.Trouble) ledger.Wrong {
	return ledger.Wrong{State: r.State, Job: r.Job, Pool: r.Pool, Kind: r.Kind}
}

// wrong counts what failed or was lost since a moment: a range of index done_state for each state, and a row for each
// such end. Successes are not among them.
func (t *tx) wrong(since time.Time) ([]ledger.Wrong, error) {
	var all []ledger.Wrong
	for _, state := range []jobs.State{jobs.StateFailed, jobs.StateLost} {
		err := t.Query(`SELECT job, pool, kind, COUNT(*), MAX(finished_at) FROM {done}{index}{done}_state{end}
			WHERE state = ? AND finished_at > ? GROUP BY job, pool, kind`, []any{string(state), micros(since)}, func(scan func(...any) error) error {
			w := ledger.Wrong{State: string(state)}
			var last int64
			err := scan(&w.Job, &w.Pool, &w.Kind, &w.Count, &last)
			w.Last = fromMicros(last)
			all = append(all, w)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b ledger.Wrong) int { return b.Last.Compare(a.Last) })
	return all[:min(wrongMost, len(all))], nil
}

// broken counts the failing jobs, and says of the first n why. The primary key of {standings} has
// all jobs, each a short row.
func (t *tx) broken(n int) (count int, all []ledger.Broken, err error) {
	const failing = ` FROM {standings} s JOIN {jobs} j ON j.name = s.name WHERE s.kind = 'job' AND s.failing = 1 AND j.hash <> ''`
	if _, err := t.One(`SELECT COUNT(*)`+failing, nil, &count); err != nil || count == 0 {
		return 0, nil, err
	}
	err = t.Query(`SELECT s.name, s.last_success_at, s.last_end_at`+failing+` ORDER BY s.last_end_at DESC, s.name LIMIT ?`, []any{n},
		func(scan func(...any) error) error {
			var b ledger.Broken
			var success, end int64
			err := scan(&b.Job, &success, &end)
			b.LastSuccess, b.LastEnd = fromMicros(success), fromMicros(end)
			all = append(all, b)
			return err
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
// backwards, a few rows, since these jobs fail now.
func (t *tx) reasons(of []ledger.Broken) (map[string]latestReason, error) {
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
	err := t.Query(strings.Join(parts, ` UNION ALL `), names, func(scan func(...any) error) error {
		var job, outcome, result string
		var r latestReason
		err := scan(&job, &outcome, &result, &r.text, &r.code)
		if word := cmp.Or(result, outcome); !strings.HasPrefix(r.text, word) {
			r.text = strings.TrimSuffix(word+": "+r.text, ": ")
		}
		reasons[job] = r
		return err
	})
	return reasons, err
}
