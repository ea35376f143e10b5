package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// locked is a candidate of a claim whose leases the replica does not present, or whose keys cannot be made.
type locked struct {
	openTask
	ledger.Locking
}

// wait makes candidates wait: those whose locks are busy, and those with a key that others wait for. The replica is to try the
// locks of the rest. A claim without candidates with locks sends nothing here.
//
// Index: primary key of lock_waits, for the keys.
func (w *claim) wait(t *tx) error {
	if len(w.locked) == 0 {
		return nil
	}
	var keys []string
	for _, l := range w.locked {
		keys = append(keys, l.Keys...)
	}
	waited, err := t.waitedFor(keys)
	if err != nil {
		return err
	}
	var waits []locked
	for _, l := range w.locked {
		behind := slices.ContainsFunc(l.Keys, func(key string) bool { return waited[key] })
		switch {
		case l.State == ledger.LocksBusy:
			waits = append(waits, l)
		case behind:
			waits = append(waits, locked{l.openTask, l.Behind()})
		default:
			w.out.Locked = append(w.out.Locked, l.Task)
			continue
		}
		for _, key := range l.Keys { // the next candidate is behind this one
			waited[key] = true
		}
	}
	return w.lockTasks(t, waits)
}

// waitedFor are those of the keys that tasks wait for.
func (t *tx) waitedFor(keys []string) (map[string]bool, error) {
	found, err := column[string](t.rows("SELECT DISTINCT lock_key FROM {lock_waits} WHERE {in name lock_key}", sqlkit.Keys(sqlkit.Distinct(keys))))
	waited := map[string]bool{}
	for _, key := range found {
		waited[key] = true
	}
	return waited, err
}

// lockTasks writes waits. A task that another replica has claimed meanwhile, or made wait, is left as it is.
//
// Index: primary keys of tasks and lock_waits.
func (w *claim) lockTasks(t *tx, waits []locked) error {
	if len(waits) == 0 {
		return nil
	}
	slices.SortFunc(waits, func(a, b locked) int { return lockOrder(a.openTask, b.openTask) })
	if err := t.lockTasks(waits); err != nil {
		return err
	}
	if keyed := those(waits, func(l locked) bool { return l.row == rowKeyed }); len(keyed) > 0 {
		if err := t.leaveKeys(mapped(keyed, func(l locked) string { return l.ID })); err != nil {
			return err
		}
	}
	is, err := column[string](t.rows("SELECT id FROM {tasks} WHERE {in name id} AND state+0=3 ORDER BY id", sqlkit.Keys(mapped(waits, func(l locked) string { return l.ID }))))
	if err != nil {
		return err
	}
	var rows [][]any
	for _, l := range waits {
		if _, waiting := slices.BinarySearch(is, l.ID); !waiting {
			continue
		}
		for _, key := range slices.Sorted(slices.Values(l.Keys)) {
			rows = append(rows, []any{
				key, -l.Priority, micros(l.RunAt), l.ID, len(l.Keys), l.Pool, ledger.WorkOf(l.Task), micros(l.LimitOfWait(w.now)),
			})
		}
		task := l.Task
		task.Reason, task.ReasonCode = l.Reason, reason.WaitsForLock
		w.out.Waiting = append(w.out.Waiting, task)
	}
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[0].(string), b[0].(string)) })
	_, err = t.InsertNew("{lock_waits} (lock_key, rank_order, run_at, task_id, key_count, pool, work, until_at)", rows)
	return err
}

// chooseWaiting is choose for tasks that wait for their locks: those of Claim.Waiting.
//
// Index: primary key of tasks.
func (w *claim) chooseWaiting(t *tx) error {
	var candidates []openTask
	var err error
	if keys := w.admission.pools[w.Pool].keys; keys != nil {
		candidates, err = w.chooseFree(t, keys)
	} else {
		candidates, err = t.openTasks(taskColumns, " WHERE {in name id} AND state+0=3 AND pool=? ORDER BY rank_order, run_at, id", sqlkit.Keys(w.Waiting), w.Pool)
	}
	if err != nil || len(candidates) == 0 {
		return err
	}
	busy, err := w.lock(t, candidates)
	if err != nil {
		return err
	}
	w.askFor(candidates, busy)
	w.locked = nil // they wait already
	w.out.More = len(busy) > 0
	return nil
}

// failLocks ends candidates whose keys cannot be made. Those that have another state or token by now are left as they are.
//
// Index: primary key of tasks; lock_waits_task.
//
// Errors: jobs.ErrUnavailable.
func (s replica) failLocks(ctx context.Context, wrong []locked) (failed []jobs.Task, err error) {
	err = s.settle(ctx, "fail tasks", func(t *tx) error {
		failed = nil
		now, err := t.Now()
		if err != nil {
			return err
		}
		rows, err := t.openTasks(taskFacts, " WHERE {in name id} AND state+0<>2 ORDER BY id", sqlkit.Keys(mapped(wrong, func(l locked) string { return l.ID })))
		if err != nil {
			return err
		}
		var moves []move
		for _, r := range rows {
			i := slices.IndexFunc(wrong, func(l locked) bool { return l.ID == r.ID && l.Token == r.Token })
			if i >= 0 {
				moves = append(moves, move{openTask: r, to: toDone, end: jobs.StateFailed, reason: wrong[i].Reason, code: reason.LockKey, failure: r.Error, exit: r.ExitCode})
			}
		}
		if len(moves) == 0 {
			return nil
		}
		counting, err := t.countRuns(mapped(runEnds(moves), func(m move) string { return m.Job }))
		if err == nil {
			err = t.suspendAfter(now, counting, runEnds(moves))
		}
		if err != nil {
			return err
		}
		failed = mapped(moves, func(m move) jobs.Task { return m.task(now) })
		return t.endPending(now, moves)
	}, nil)
	return failed, err
}
