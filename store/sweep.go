package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// deadSessionsFor is how long the row of a replica's dead session stays, for display.
	deadSessionsFor = time.Hour
	// deadWorkersFor is the same for the sessions of workers: each claim may open one.
	deadWorkersFor = time.Minute
)

// Sweep deletes what is older than its retention, as judge takes the time, at most limit rows of each
// kind, each kind in a transaction of its own, and reports whether more is left. Attempts, output, result,
// idempotency key and uniqueness go with their task. Open triggers stay. Pending tasks of jobs that no
// configuration has any more are cancelled, at most limit of them. It implements ledger.Tasks.
//
// Errors: what judge returned, and nothing is deleted; jobs.ErrUnavailable: what was deleted before it
// stays deleted.
func (s replica) Sweep(ctx context.Context, judge ledger.Judge, r jobs.Retention, limit int) (more bool, err error) {
	now, err := get(ctx, s.read, "sweep", func(t *tx) (time.Time, error) { return t.judged(judge) })
	if err != nil {
		return false, err
	}
	retired, err := get(ctx, s.settled, "cancel tasks of retired jobs", func(t *tx) (int, error) { return cancelRetired(t, limit) })
	if err != nil {
		return false, err
	}
	more = retired >= limit
	for _, w := range sweeps(r) {
		if w.age == 0 {
			continue
		}
		n, err := get(ctx, s.sure, "sweep "+w.what, func(t *tx) (int, error) { return w.once(t, micros(now.Add(-w.age)), limit) })
		if err != nil {
			return more, err
		}
		more = more || n >= limit
	}
	return more, nil
}

// sweep is one kind of rows. An age of 0 keeps all rows.
type sweep struct {
	what   string
	age    time.Duration
	old    string   // selects the keys of some that are old, in its last parameter at most that many; the others are the moment
	delete []string // what has these keys; parameters besides them are the moment
}

// deleteEnded deletes ended tasks by their ids, with all that belongs to them.
var deleteEnded = []string{
	"{delete} {done} AS t{by_key} WHERE {in name id}",
	"{delete} {attempts} AS t{by_key} WHERE {in name task_id}",
	"{delete} {outputs} AS t{by_key} WHERE {in name task_id}",
	"{delete} {results} AS t{by_key} WHERE {in name task_id}",
	"{delete} {idempotency} AS t WHERE {in name task_id}",
	"{delete} {unique_tasks} AS t WHERE {in name task_id}",
}

func sweeps(r jobs.Retention) []sweep {
	// Index: done_state, then primary keys, idempotency_task and unique_tasks_task.
	tasks := func(state jobs.State, age time.Duration) sweep {
		return sweep{
			"tasks", age, "SELECT id FROM {done} WHERE state='" + string(state) + "' AND finished_at<? ORDER BY finished_at LIMIT ?",
			deleteEnded,
		}
	}
	// A dead session is kept as long as tasks run under it: their reaping names it. Index: sessions_dead; tasks_claim for the
	// running ones.
	sessions := func(what, pool string, age time.Duration) sweep {
		return sweep{
			what, age,
			"SELECT id FROM {sessions} WHERE dead=1 AND pool" + pool + " AND seen_at<? AND id NOT IN (SELECT session_id FROM {tasks} WHERE state=2) LIMIT ?",
			[]string{
				// Their kinds are deleted before them, by the numbers of the dead sessions. A number belongs to one session, and no
				// dead session loads again. A comparison with all sessions would not see a replica that loads meanwhile, and delete
				// its rows.
				"DELETE FROM {kinds} WHERE config IN (SELECT config FROM {sessions} WHERE dead=1 AND {in name id})",
				"DELETE FROM {sessions} WHERE dead=1 AND {in name id}",
			},
		}
	}
	return []sweep{
		// A backfill's due time is long ago when it is decided: both must be old. Index: triggers_at.
		{
			"triggers", r.Triggers,
			"SELECT job, at, seq FROM {triggers} WHERE at<? AND until_at<? AND decided_at<? AND finished_at<? AND outcome<>'' ORDER BY at LIMIT ?",
			[]string{"{delete} {triggers} AS t{by_key} WHERE {in name job, int at, int seq}"},
		},
		// Index: audit_at.
		{"audit", r.Triggers, "SELECT id FROM {audit} WHERE at<? ORDER BY at LIMIT ?", []string{"{delete} {audit} AS t{by_key} WHERE {in name id}"}},
		tasks(jobs.StateSucceeded, r.Succeeded),
		tasks(jobs.StateFailed, r.Failed),
		tasks(jobs.StateLost, r.Failed),
		tasks(jobs.StateCancelled, r.Failed),
		// Index: outputs_created.
		{
			"output", r.Output, "SELECT task_id, attempt FROM {outputs} WHERE created_at<? ORDER BY created_at LIMIT ?",
			[]string{"{delete} {outputs} AS t{by_key} WHERE {in name task_id, int attempt}"},
		},
		// A key that nobody waits for, whose bucket is full, is as one without a row. Index: keys_look.
		{
			"keys", time.Hour, "SELECT pool, task_key FROM {keys}{index}{keys}_look{end} WHERE look_at=0 AND bucket_full_at<?*1000 LIMIT ?",
			[]string{"DELETE FROM {keys} WHERE look_at=0 AND bucket_full_at<?*1000 AND {in name pool, name task_key}"},
		},
		// Those that a transaction has locked are in use.
		{
			"sequences", time.Hour, "SELECT pool, task_key FROM {sequences} s WHERE last_place<? AND " + noPlace("s") + " LIMIT ?{for_update}{skip_locked}",
			[]string{"DELETE FROM {sequences} WHERE last_place<? AND {in name pool, name task_key} AND " + noPlace("{sequences}")},
		},
		// Each row is looked at once. One whose task is unique for longer goes with the task. Index: unique_tasks_look; primary keys.
		{
			"unique tasks", time.Hour,
			"SELECT pool, values_hash FROM {unique_tasks}{index}{unique_tasks}_look{end} WHERE look_at>0 AND look_at<? ORDER BY look_at LIMIT ?{for_update}{skip_locked}",
			[]string{
				"DELETE FROM {unique_tasks} WHERE look_at<? AND {in name pool, name values_hash} AND " + noUniqueTask,
				"UPDATE {unique_tasks} SET look_at=0 WHERE {in name pool, name values_hash}",
			},
		},
		sessions("sessions", "=''", deadSessionsFor),
		sessions("workers' sessions", "<>''", deadWorkersFor),
	}
}

// noPlace is the condition that no task has a place of a sequence. Index: primary key of key_waits.
func noPlace(table string) string {
	return "NOT EXISTS (SELECT 1 FROM {key_waits} w WHERE w.pool=" + table + ".pool AND w.task_key=" + table + ".task_key)"
}

// noUniqueTask is the condition that what a row names is not unique any more, whose time is over; see unique.holds.
const noUniqueTask = "NOT EXISTS (SELECT 1 FROM {tasks} k WHERE k.id={unique_tasks}.task_id AND ({unique_tasks}.unique_while='open' OR " +
	"{unique_tasks}.unique_while='pending' AND k.state<>2 AND k.token<={unique_tasks}.token))"

// once deletes some rows that are older than a moment, and returns how many.
func (w sweep) once(t *tx, before int64, limit int) (int, error) {
	args := slices.Repeat([]any{before}, strings.Count(w.old, "?"))
	args[len(args)-1] = limit
	old, err := keys(t.rows(w.old, args...))
	for _, statement := range w.delete {
		if err == nil {
			_, err = t.Exec(statement, append([]any{old}, slices.Repeat([]any{before}, strings.Count(statement, "?"))...)...)
		}
	}
	return len(old), err
}
