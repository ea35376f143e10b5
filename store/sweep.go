package store

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// deadSessionsFor is how long the row of a dead session stays, for display.
const deadSessionsFor = time.Hour

// Sweep deletes what is older than its retention, as judge takes the time, at most limit rows of each
// kind, each kind in a transaction of its own, and reports whether more is left. Attempts, output
// and idempotency key go with their task. Open triggers stay. Pending tasks of jobs that no
// configuration has any more are cancelled, at most limit of them. It implements the scheduler's Tasks.
//
// Errors: what judge returned, and nothing is deleted; jobs.ErrUnavailable: what was deleted before it
// stays deleted.
func (s replica) Sweep(ctx context.Context, judge ledger.Judge, r jobs.Retention, limit int) (more bool, err error) {
	var now time.Time
	err = s.read(ctx, "sweep", func(t *tx) (err error) { now, err = t.judged(judge); return err })
	if err != nil {
		return false, err
	}
	retired := 0
	cancel := func(t *tx) (err error) { retired, err = cancelRetired(t, limit); return err }
	if err := s.settle(ctx, "cancel tasks of retired jobs", cancel, nil); err != nil {
		return false, err
	}
	more = retired >= limit
	before := func(age time.Duration) int64 { return micros(now.Add(-age)) }
	tasks := func(state jobs.State, age time.Duration) sweep {
		return sweep{"sweep tasks", age, func(t *tx) (int, error) { return sweepTasks(t, state, before(age), limit) }}
	}
	for _, w := range []sweep{
		{"sweep triggers", r.Triggers, func(t *tx) (int, error) { return sweepTriggers(t, before(r.Triggers), limit) }},
		{"sweep audit", r.Triggers, func(t *tx) (int, error) { return sweepAudit(t, before(r.Triggers), limit) }},
		tasks(jobs.StateSucceeded, r.Succeeded),
		tasks(jobs.StateFailed, r.Failed),
		tasks(jobs.StateLost, r.Failed),
		tasks(jobs.StateCancelled, r.Failed),
		{"sweep output", r.Output, func(t *tx) (int, error) { return sweepOutputs(t, before(r.Output), limit) }},
		{"sweep sessions", deadSessionsFor, func(t *tx) (int, error) { return sweepSessions(t, before(deadSessionsFor), limit) }},
	} {
		if w.age == 0 {
			continue
		}
		var n int
		if err := s.sure(ctx, w.op, func(t *tx) (err error) { n, err = w.once(t); return err }); err != nil {
			return more, err
		}
		more = more || n >= limit
	}
	return more, nil
}

// sweep is one kind of rows; once deletes some and returns how many. An age of 0 keeps all rows.
type sweep struct {
	op   string
	age  time.Duration
	once func(t *tx) (int, error)
}

// A backfill's due time is long ago when it is decided: both must be old.
//
// Index: triggers_at, then the primary key.
func sweepTriggers(t *tx, before int64, limit int) (int, error) {
	var keys []ledgerKey
	err := read(t, `SELECT job, at, seq FROM {triggers} WHERE at<? AND until_at<? AND decided_at<? AND finished_at<? AND outcome<>''
		ORDER BY at LIMIT ?`, []any{before, before, before, before, limit}, func(m *triggerModel) error {
		keys = append(keys, ledgerKey{m.Job, m.At, m.Seq})
		return nil
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	_, err = t.ExecRows("{delete} {triggers} AS t{by_key} WHERE {in name job, int at, int seq}",
		sqlkit.Rows(keys, func(k ledgerKey) []any { return []any{k.job, k.at, k.seq} }))
	return len(keys), err
}

// Index: done_state, then primary keys and idempotency_task.
func sweepTasks(t *tx, state jobs.State, before int64, limit int) (int, error) {
	tasks, err := column[string](t, "SELECT id FROM {done} WHERE state=? AND finished_at<? ORDER BY finished_at LIMIT ?", string(state), before, limit)
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	for _, statement := range []string{
		"{delete} {done} AS t{by_key} WHERE {in name id}",
		"{delete} {attempts} AS t{by_key} WHERE {in name task_id}",
		"{delete} {outputs} AS t{by_key} WHERE {in name task_id}",
		"{delete} {idempotency} AS t WHERE {in name task_id}",
	} {
		if _, err := t.ExecRows(statement, sqlkit.Keys(tasks)); err != nil {
			return 0, err
		}
	}
	return len(tasks), nil
}

// Index: outputs_created, then the primary key.
func sweepOutputs(t *tx, before int64, limit int) (int, error) {
	type output struct {
		task    string
		attempt int
	}
	var old []output
	err := t.Query("SELECT task_id, attempt FROM {outputs} WHERE created_at<? ORDER BY created_at LIMIT ?", []any{before, limit},
		func(scan func(...any) error) error {
			var o output
			err := scan(&o.task, &o.attempt)
			old = append(old, o)
			return err
		})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	_, err = t.ExecRows("{delete} {outputs} AS t{by_key} WHERE {in name task_id, int attempt}",
		sqlkit.Rows(old, func(o output) []any { return []any{o.task, o.attempt} }))
	return len(old), err
}

// A dead session is kept as long as tasks run under it: their reaping names it.
//
// Index: sessions_dead, then the primary key; tasks_due for the running ones.
func sweepSessions(t *tx, before int64, limit int) (int, error) {
	dead, err := column[string](t, `SELECT id FROM {sessions} WHERE dead=1 AND seen_at<? AND id NOT IN (SELECT session_id FROM {tasks} WHERE state=2)
		LIMIT ?`, before, limit)
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	// Their kinds are deleted before them, by the numbers of the dead sessions. A number belongs to one session, and no dead
	// session loads again. A comparison with all sessions would not see a replica that loads meanwhile, and delete its rows.
	_, err = t.ExecRows("DELETE FROM {kinds} WHERE config IN (SELECT config FROM {sessions} WHERE dead=1 AND {in name id})", sqlkit.Keys(dead))
	if err != nil {
		return 0, err
	}
	_, err = t.ExecRows("DELETE FROM {sessions} WHERE dead=1 AND {in name id}", sqlkit.Keys(dead))
	return len(dead), err
}
