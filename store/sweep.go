package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// deadSessionsFor is how long the row of a replica's dead session stays, for display.
	deadSessionsFor = time.Hour
	// deadWorkersFor is the same for the sessions of workers: each claim may open one.
	deadWorkersFor = time.Minute
)

// Sweep deletes what is older than its retention, as judge takes the time, at most limit rows of each
// kind, each kind in a transaction of its own, and reports whether more is left. Attempts, outputs, result,
// idempotency key and uniqueness go with their task. Open triggers stay. Pending tasks of jobs that no
// configuration has any more are cancelled, at most limit of them. It implements ledger.Tasks.
//
// A kind of which nothing could be deleted holds up no other: it has half of the time that is left, and the next ones are deleted.
//
// Errors: what judge returned, and nothing is deleted; jobs.ErrUnavailable, or what the database refused: the other kinds were
// deleted, and more is about them.
func (s replica) Sweep(ctx context.Context, judge ledger.Judge, r jobs.Retention, limit int) (more bool, err error) {
	now, err := get(ctx, s.read, "sweep", func(t *tx) (time.Time, error) { return t.judged(judge) })
	if err != nil {
		return false, err
	}
	var errs []error
	kind := func(by reading, op string, fn func(t *tx) (int, error)) {
		ctx, cancel := halfOf(ctx)
		defer cancel()
		n, err := get(ctx, by, op, fn)
		more, errs = more || err == nil && n >= limit, append(errs, err)
	}
	kind(s.settled, "cancel tasks of retired jobs", func(t *tx) (int, error) { return cancelRetired(t, limit) })
	for _, w := range sweeps(r) {
		if w.age > 0 {
			kind(s.sure, "sweep "+w.what, func(t *tx) (int, error) { return w.once(t, micros(now.Add(-w.age)), limit) })
		}
	}
	return more, errors.Join(errs...)
}

// halfOf ends after half of the time that ctx has left, if that ends at all.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ends := ctx.Deadline()
	if !ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// sweep is one kind of rows. An age of 0 keeps all rows.
type sweep struct {
	what   string
	age    time.Duration
	old    string   // selects the keys of some that are old, in its last parameter at most that many; the others are the moment
	again  string   // if claims may begin to need such rows: selects those of the keys, which begin with a pool, and locks them; see keep
	loads  bool     // no replica joins or loads meanwhile
	delete []string // what has these keys; parameters besides them are the moment
}

// byList is a deletion of rows by a list that is read first, where rows are locked: for a list of values MariaDB reads a small table as a
// whole, and with it rows that transactions of users have locked.
func (t *tx) byList(statement string) string {
	if t.DB.Dialect.LocksRows() {
		return statement
	}
	return strings.Replace(statement, "{each}", "", 1)
}

// deleteEnded deletes ended tasks by their ids, with all that belongs to them; see byList.
var deleteEnded = []string{
	"{delete} {done} AS t{by_key} WHERE {in name id}",
	"{delete} {attempts} AS t{by_key} WHERE {in name task_id}",
	"{delete} {outputs} AS t{by_key} WHERE {in name task_id}",
	"{delete} {results} AS t{by_key} WHERE {in name task_id}",
	"{delete} {chunks} AS t{by_key} WHERE {in name task_id}",
	"{delete} {each}{idempotency} AS t{index}{idempotency}_task{end} WHERE {in name task_id}",
	"{delete} {each}{unique_tasks} AS t{index}{unique_tasks}_task{end} WHERE {in name task_id}",
}

func sweeps(r jobs.Retention) []sweep {
	// Index: done_state, then primary keys, idempotency_task and unique_tasks_task.
	tasks := func(state jobs.State, age time.Duration) sweep {
		return sweep{
			what: "tasks", age: age, old: "SELECT id FROM {done} WHERE state='" + string(state) + "' AND finished_at<? ORDER BY finished_at LIMIT ?",
			delete: deleteEnded,
		}
	}
	// A dead session is kept as long as tasks run under it: their reaping names it. Index: sessions_dead; tasks_claim for the
	// running ones.
	sessions := func(what, pool string, age time.Duration) sweep {
		return sweep{
			what: what, age: age, loads: true,
			old:    "SELECT id FROM {sessions} WHERE dead=1 AND pool" + pool + " AND seen_at<? AND id NOT IN (SELECT session_id FROM {tasks} WHERE state=2) LIMIT ?",
			delete: []string{"DELETE FROM {sessions} WHERE dead=1 AND {in name id}"},
		}
	}
	return []sweep{
		// A backfill's due time is long ago when it is decided: both must be old. Index: triggers_at.
		{
			what: "triggers", age: r.Triggers,
			old:    "SELECT job, at, seq FROM {triggers} WHERE at<? AND until_at<? AND decided_at<? AND finished_at<? AND outcome<>'' ORDER BY at LIMIT ?",
			delete: []string{"{delete} {triggers} AS t{by_key} WHERE {in name job, int at, int seq}"},
		},
		// What no row of the ledger can have been decided under any more: it ceased to govern before the first that is left of its job. Index:
		// definitions_until; primary keys.
		{
			what: "definitions", age: r.Triggers,
			old:    "SELECT job, hash FROM {definitions} d WHERE until_at>0 AND until_at<? AND " + noTrigger("d") + " ORDER BY until_at LIMIT ?",
			delete: []string{"{delete} {each}{definitions} AS t{by_key} WHERE until_at>0 AND until_at<? AND {in name job, name hash}"},
		},
		// Index: audit_at.
		{what: "audit", age: r.Triggers, old: "SELECT id FROM {audit} WHERE at<? ORDER BY at LIMIT ?", delete: []string{"{delete} {audit} AS t{by_key} WHERE {in name id}"}},
		// Index: orders_ended.
		{what: "orders", age: r.Triggers, old: "SELECT id FROM {orders} WHERE ended_at>0 AND ended_at<? ORDER BY ended_at LIMIT ?", delete: []string{"{delete} {orders} AS t{by_key} WHERE {in name id}"}},
		tasks(jobs.StateSucceeded, r.Succeeded),
		tasks(jobs.StateFailed, r.Failed),
		tasks(jobs.StateLost, r.Failed),
		tasks(jobs.StateCancelled, r.Failed),
		// Index: outputs_created.
		{
			what: "output", age: r.Output, old: "SELECT task_id, attempt FROM {outputs} WHERE created_at<? ORDER BY created_at LIMIT ?",
			delete: []string{"{delete} {outputs} AS t{by_key} WHERE {in name task_id, int attempt}"},
		},
		// A key that nobody waits for, whose bucket is full, is as one without a row. Index: keys_look.
		{
			what: "keys", age: time.Hour, old: "SELECT pool, task_key FROM {keys}{index}{keys}_look{end} WHERE look_at=0 AND bucket_full_at<?*1000 LIMIT ?",
			delete: []string{"{delete} {each}{keys} AS t{by_key} WHERE look_at=0 AND bucket_full_at<?*1000 AND {in name pool, name task_key}"},
		},
		// Those that a transaction has locked are in use. A claim that gives a late place locks no sequence that there is; see placeLate. It has the
		// pool's row locked. Index: primary keys of sequences and pools.
		{
			what: "sequences", age: time.Hour,
			old: "SELECT pool, task_key FROM {sequences} s WHERE last_place<? AND " + noPlace("s") + " LIMIT ?",
			again: "SELECT pool, task_key FROM {sequences} s{by_key} WHERE last_place<? AND {in name pool, name task_key} AND " + noPlace("s") +
				" ORDER BY pool, task_key{for_update}{skip_locked}",
			delete: []string{"{delete} {each}{sequences} AS t{by_key} WHERE last_place<? AND {in name pool, name task_key} AND " + noPlace("t")},
		},
		// Each row is looked at once. One whose task is unique for longer goes with the task. Index: unique_tasks_look; primary keys.
		{
			what: "unique tasks", age: time.Hour,
			old: "SELECT pool, values_hash FROM {unique_tasks}{index}{unique_tasks}_look{end} WHERE look_at>0 AND look_at<? ORDER BY look_at LIMIT ?{for_update}{skip_locked}",
			delete: []string{
				"{delete} {each}{unique_tasks} AS t{by_key} WHERE look_at<? AND {in name pool, name values_hash} AND " + noUniqueTask,
				"UPDATE {unique_tasks}{by_key} SET look_at=0 WHERE {in name pool, name values_hash}",
			},
		},
		sessions("sessions", "=''", deadSessionsFor),
		sessions("workers' sessions", "<>''", deadWorkersFor),
		// What replicas had loaded before a reload, or have taken along. A session that loads writes all of its kinds anew. Index: primary key of kinds.
		{
			what: "kinds", age: deadSessionsFor, loads: true,
			old:    "SELECT config, pool FROM {kinds} WHERE config NOT IN (SELECT config FROM {sessions}) ORDER BY config, pool LIMIT ?",
			delete: []string{"{delete} {kinds} AS t{by_key} WHERE {in int config, name pool}"},
		},
		// What was superseded that long ago. It is read as a whole: few rows are more than those that stay. Index: primary key of configurations.
		{
			what: "configurations", age: r.Triggers, loads: true,
			old: "SELECT hash FROM {configurations} WHERE number<(SELECT COALESCE(MAX(number), 0) FROM {configurations} WHERE at<?)" +
				" AND number<=(SELECT MAX(number) FROM {configurations})-" + strconv.Itoa(ledger.KeptConfigurations) +
				" AND hash NOT IN (SELECT config_hash FROM {sessions}) ORDER BY number LIMIT ?",
			delete: []string{"{delete} {configurations} AS t{by_key} WHERE {in name hash}"},
		},
	}
}

// noPlace is the condition that no task has a place of a sequence. MariaDB would read all places for NOT EXISTS, and a deletion would wait for
// those that transactions of users have locked. Index: primary key of key_waits.
func noPlace(table string) string {
	return "(SELECT w.task_id FROM {key_waits} w{by_key} WHERE w.pool=" + table + ".pool AND w.task_key=" + table + ".task_key LIMIT 1) IS NULL"
}

// noTrigger is the condition that no row of the ledger is left of a time at which a definition governed, or before. It is written as noPlace is. Index:
// primary key of triggers.
func noTrigger(definition string) string {
	return "(SELECT g.at FROM {triggers} g{by_key} WHERE g.job=" + definition + ".job AND g.at<=" + definition + ".until_at ORDER BY g.at LIMIT 1) IS NULL"
}

// noUniqueTask is the condition that what a row t names is not unique any more, whose time is over; see unique.holds. It is written as noPlace
// is. Index: primary key of tasks.
const noUniqueTask = "(SELECT k.id FROM {tasks} k{by_key} WHERE k.id=t.task_id AND " +
	"(t.unique_while='open' OR t.unique_while='pending' AND k.state<>2 AND k.token<=t.token)) IS NULL"

// once deletes some rows that are older than a moment, and returns how many.
func (w sweep) once(t *tx, before int64, limit int) (int, error) {
	if w.loads {
		if _, err := t.lockConfig(); err != nil {
			return 0, err
		}
	}
	args := slices.Repeat([]any{before}, strings.Count(w.old, "?"))
	args[len(args)-1] = limit
	old, err := keys(t.rows(w.old, args...))
	if err == nil && w.again != "" && len(old) > 0 {
		old, err = w.keep(t, old, before)
	}
	for _, statement := range w.delete {
		if err == nil {
			_, err = t.Exec(t.byList(statement), append([]any{old}, slices.Repeat([]any{before}, strings.Count(statement, "?"))...)...)
		}
	}
	return len(old), err
}

// keep locks the pools of keys, and selects again: what their claims have written until then is seen, and they write nothing more until the end.
// The first selection locks none, since it may read all rows.
//
// Index: primary key of pools.
func (w sweep) keep(t *tx, old sqlkit.Many, before int64) (sqlkit.Many, error) {
	pools := sqlkit.Distinct(mapped(old, func(key []any) string { return key[0].(string) }))
	if _, err := column[string](t.rows("SELECT name FROM {pools}{by_key} WHERE {in name name} ORDER BY name{for_update}", sqlkit.Keys(pools))); err != nil {
		return nil, err
	}
	return keys(t.rows(w.again, old, before))
}
