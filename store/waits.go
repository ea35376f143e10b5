package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// A task that waits for locks is in a state of its own, and {lock_waits} has a row for each of its keys:
//
//	ready ──▶ locked    a replica has tried its locks in vain, or others wait for one of them
//	locked ──▶ running  a replica has its leases, and claims it by its id
//	       ──▶ ready    a replica has its leases, and its pool is full: it is claimed as all tasks are, once there is room
//	       ──▶ {done}   its limit is over, a user has cancelled it, or its job was removed
//
// No statement of tasks without locks reads or writes {lock_waits}.

// FirstWaits implements ledger.Waits.
//
// Index: primary key of lock_waits, for the keys and for the first of each; lock_waits_until for ends.
//
// Errors: jobs.ErrUnavailable.
func (s replica) FirstWaits(ctx context.Context, session string, skip []string, limit int) (first []ledger.Wait, ends time.Time, err error) {
	err = s.read(ctx, "first waits", func(t *tx) error {
		first, ends = nil, time.Time{}
		where, args := "", []any{}
		if len(skip) > 0 {
			var list string
			list, args = sqlkit.List(skip)
			where = " AND o.work NOT IN " + list
		}
		rows, err := t.firstRows(where, args, limit)
		if err != nil {
			return err
		}
		live, err := t.liveSessions(rows)
		if err != nil {
			return err
		}
		times := map[string]int{} // that a task is first
		for _, m := range rows {
			if times[m.TaskID]++; times[m.TaskID] == m.KeyCount {
				first = append(first, ledger.Wait{
					TaskID: m.TaskID, Pool: m.Pool, Work: m.Work, Queued: m.SessionID != session && live[m.SessionID],
				})
			}
		}
		ends, err = t.firstLimit()
		return err
	})
	return first, ends, err
}

// firstLimit is when the first limit of a wait is over; zero: no wait has one.
func (t *tx) firstLimit() (time.Time, error) {
	var at int64
	_, err := t.One("SELECT until_at FROM {lock_waits} WHERE until_at>0 ORDER BY until_at LIMIT 1", nil, &at)
	return fromMicros(at), err
}

// keysAtOnce is how many keys one statement looks at.
const keysAtOnce = 1000

// firstRows are the first rows of at most limit keys, in the order of claims. The row of the first is read by its task: a key that
// many tasks wait for costs no more than others.
func (t *tx) firstRows(where string, args []any, limit int) (rows []lockWaitModel, err error) {
	for after, left := "", limit; left > 0; {
		page, n := min(left, keysAtOnce), 0
		err := each(t.rows(`SELECT k.lock_key, COALESCE(w.rank_order, 0) AS rank_order, COALESCE(w.run_at, 0) AS run_at, COALESCE(w.task_id, '') AS task_id,
				COALESCE(w.key_count, 0) AS key_count, COALESCE(w.pool, '') AS pool, COALESCE(w.work, '') AS work, COALESCE(w.session_id, '') AS session_id
			FROM (SELECT DISTINCT lock_key FROM {lock_waits} WHERE lock_key>? ORDER BY lock_key LIMIT ?) k
			LEFT JOIN {lock_waits} w{index}{lock_waits}_task{end} ON w.lock_key=k.lock_key AND w.task_id=(SELECT o.task_id FROM {lock_waits} o
				WHERE o.lock_key=k.lock_key AND o.pool IN (SELECT name FROM {pools} p WHERE p.hash<>'' AND COALESCE(p.paused, 0)=0)`+where+`
				ORDER BY o.rank_order, o.run_at, o.task_id LIMIT 1)
			ORDER BY k.lock_key`, slices.Concat([]any{after, page}, args)...), func(m *lockWaitModel) {
			after, n = m.LockKey, n+1
			if m.TaskID != "" {
				rows = append(rows, *m)
			}
		})
		if err != nil {
			return nil, err
		}
		if left -= n; n < page {
			break
		}
	}
	slices.SortFunc(rows, func(a, b lockWaitModel) int {
		return cmp.Or(cmp.Compare(a.RankOrder, b.RankOrder), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.TaskID, b.TaskID))
	})
	return rows, nil
}

// liveSessions are those of the sessions of waits that are not dead.
func (t *tx) liveSessions(rows []lockWaitModel) (map[string]bool, error) {
	live := map[string]bool{}
	var ids []string
	for _, m := range rows {
		if m.SessionID != "" {
			ids = append(ids, m.SessionID)
		}
	}
	if len(ids) == 0 {
		return live, nil
	}
	found, err := column[string](t.rows("SELECT id FROM {sessions} WHERE dead=0 AND {in name id}", sqlkit.Keys(sqlkit.Distinct(ids))))
	for _, id := range found {
		live[id] = true
	}
	return live, err
}

// QueueWaits implements ledger.Waits.
//
// Index: lock_waits_task; primary key of tasks.
//
// Errors: jobs.ErrUnavailable.
func (s replica) QueueWaits(ctx context.Context, session string, tasks []string) (mine []jobs.Task, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	tasks = sqlkit.Distinct(tasks)
	err = s.sure(ctx, "queue waits", func(t *tx) error {
		_, err := t.Exec(`UPDATE {lock_waits} SET session_id=? WHERE {in name task_id}
			AND NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.id=session_id AND s.dead=0)`, sqlkit.Keys(tasks), session)
		if err != nil {
			return err
		}
		rows, err := t.openTasks(taskColumns, " WHERE {in name id} AND state+0=3 AND EXISTS (SELECT 1 FROM {lock_waits} w WHERE w.task_id=id AND w.session_id=?) ORDER BY id",
			sqlkit.Keys(tasks), session)
		if mine = mapped(rows, func(r openTask) jobs.Task { return r.Task }); err != nil || len(mine) == len(tasks) {
			return err
		}
		// Else tasks would wait behind the row of a task that waits no more.
		_, err = t.Exec(`{delete} {lock_waits} AS t WHERE {in name task_id} AND session_id=?
			AND NOT EXISTS (SELECT 1 FROM {tasks} WHERE id=task_id AND state+0=3)`, sqlkit.Keys(tasks), session)
		return err
	})
	return mine, err
}

// LeaveWaits implements ledger.Waits.
//
// Index: lock_waits_task.
//
// Errors: jobs.ErrUnavailable.
func (s replica) LeaveWaits(ctx context.Context, session string, tasks []string) error {
	if len(tasks) == 0 {
		return nil
	}
	return s.sure(ctx, "leave waits", func(t *tx) error {
		_, err := t.Exec("UPDATE {lock_waits} SET session_id='' WHERE {in name task_id} AND session_id=?", sqlkit.Keys(sqlkit.Distinct(tasks)), session)
		return err
	})
}

// ExplainWaits implements ledger.Waits.
//
// Index: primary key of tasks; lock_waits_task.
//
// Errors: jobs.ErrUnavailable.
func (s replica) ExplainWaits(ctx context.Context, session string, reasons map[string]string) error {
	if len(reasons) == 0 {
		return nil
	}
	return s.sure(ctx, "explain waits", func(t *tx) error {
		_, err := t.Exec(`UPDATE {each}{tasks}{by_key} SET reason={text reason}
			WHERE state+0=3 AND EXISTS (SELECT 1 FROM {lock_waits} w WHERE w.task_id=id
				AND (w.session_id=? OR NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.id=w.session_id AND s.dead=0))) AND {in name id}`,
			sqlkit.Rows(slices.Sorted(maps.Keys(reasons)), func(id string) []any { return []any{clip.Text(reasons[id], 512), id} }), session)
		return err
	})
}

// EndWaits implements ledger.Waits.
//
// Index: lock_waits_until; primary key of tasks; for the first of a key the primary key of lock_waits.
//
// Errors: what judge returned, jobs.ErrUnavailable.
func (s replica) EndWaits(ctx context.Context, judge ledger.Judge, limit int) (ended []jobs.Task, err error) {
	err = s.settle(ctx, "end waits", func(t *tx) error {
		ended = nil
		now, err := t.judged(judge)
		if err != nil {
			return err
		}
		ids, err := t.overWaits(now, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		rows, err := t.openTasks(taskFacts, " WHERE {in name id} AND state+0=3 ORDER BY id", sqlkit.Keys(ids))
		if err != nil || len(rows) == 0 {
			return err
		}
		first, err := t.firstBefore(ids)
		if err != nil {
			return err
		}
		moves := mapped(rows, func(r openTask) move {
			return move{openTask: r, to: toDone, end: jobs.StateCancelled, reason: ledger.EndOfWait(r.Reason, first[r.ID]), code: reason.LockWait, failure: r.Error, exit: r.ExitCode}
		})
		ended = mapped(moves, func(m move) jobs.Task { return m.task(now) })
		return t.endPending(now, moves)
	}, nil)
	return ended, err
}

// overWaits are tasks whose limit is over, at most limit of them.
func (t *tx) overWaits(now time.Time, limit int) ([]string, error) {
	return column[string](t.rows("SELECT DISTINCT task_id FROM {lock_waits} WHERE until_at>0 AND until_at<=? ORDER BY task_id LIMIT ?", micros(now), limit))
}

// firstBefore has, for tasks that wait behind others, the reason of the one that is first for a key: it names the holder.
func (t *tx) firstBefore(tasks []string) (map[string]string, error) {
	type behind struct{ TaskID, Reason string }
	first := map[string]string{}
	err := each(t.rows(`SELECT w.task_id, f.reason FROM {lock_waits} w JOIN {tasks} f ON f.id=(SELECT o.task_id FROM {lock_waits} o
			WHERE o.lock_key=w.lock_key ORDER BY o.rank_order, o.run_at, o.task_id LIMIT 1)
		WHERE {in name task_id} AND f.id<>w.task_id ORDER BY w.lock_key DESC`, sqlkit.Keys(tasks)), func(b *behind) { first[b.TaskID] = b.Reason })
	return first, err
}

// endPending writes the moves of pending tasks that end. Those that waited for locks leave no row in {lock_waits}.
//
// Index: as move; lock_waits_task.
func (t *tx) endPending(now time.Time, moves []move) error {
	if err := t.endPendingRows(now, moves); err != nil {
		return err
	}
	return t.happened(now, ends(moves))
}

// endPendingRows is endPending without what follows, whose rows come after those of tasks.
func (t *tx) endPendingRows(now time.Time, moves []move) error {
	places, err := t.wakeKeys(now, moves)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		guard
		rows []int
	}{{isPending, []int{rowReady, rowWaits}}, {isLocked, []int{rowLocked}}, {isKeyed, []int{rowKeyed}}, {isQueued, []int{rowQueued}}} {
		part := those(moves, func(m move) bool { return slices.Contains(of.rows, m.row) })
		if len(part) == 0 {
			continue
		}
		if err := t.moveRows(now, of.guard, part, places); err != nil {
			return err
		}
		if of.rows[0] == rowLocked {
			if err := t.forgetWaits(mapped(part, move.id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitNoMore makes tasks ready that wait for their locks: they wait for room in their pool now, and hold up no other task.
//
// Index: primary key of tasks; lock_waits_task.
func (t *tx) waitNoMore(tasks []string) error {
	if err := t.unlockTasks(tasks); err != nil {
		return err
	}
	return t.forgetWaits(tasks)
}

// forgetWaits deletes what tasks wait for.
//
// Index: lock_waits_task.
func (t *tx) forgetWaits(tasks []string) error {
	_, err := t.Exec(t.byList("{delete} {each}{lock_waits} AS t{index}{lock_waits}_task{end} WHERE {in name task_id}"), sqlkit.Keys(sqlkit.Distinct(tasks)))
	return err
}
