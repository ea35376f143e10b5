package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// sortLimit is how many ready tasks are sorted in one transaction.
const sortLimit = 1000

// sortKeys sorts ready tasks of a pool in a transaction of its own.
func (s *Store) sortKeys(ctx context.Context, pool string, now time.Time, lock string) (sorted int, more bool, err error) {
	err = s.sure(ctx, "sort tasks", func(t *tx) (err error) {
		sorted, more, err = t.sortKeys(pool, now, lock)
		return err
	})
	return sorted, more, err
}

// sortedColumns are those of a task t that is sorted: neither its payload nor what earlier attempts have left.
const sortedColumns = "t.id, t.pool, t.kind, t.job, t.task_key, t.state, t.token, t.rank_order, t.run_at, t.created_at"

// sortKeys has ready tasks of a pool wait for their keys, the first sortLimit in the order of claims, as claims do with those that they look
// at and do not start. So a key whose first task is behind many of other keys is found also while claims look at few, or at none since no
// worker is free. In a pool that keys share all wait; in others those whose key or kind does not let them start. Tasks of jobs stay as they are,
// and those of kinds that no live replica takes. lock ends the statement that reads the pool's row; a row that it skips is left alone. It
// returns how many wait from now on, and whether there may be more.
//
// Index: tasks_claim, equality on state and pool, then its order; primary keys of pools and keys, and with an order of key_waits and tasks.
func (t *tx) sortKeys(pool string, now time.Time, lock string) (sorted int, more bool, err error) {
	var row poolModel
	err = each(t.rows("SELECT "+poolColumns+" FROM {pools}{by_key} WHERE name=?"+lock, pool), func(m *poolModel) { row = *m })
	k := row.keys()
	if err != nil || k == nil || k.left {
		return 0, false, err
	}
	if err := k.read(t, pool, &poolRow{limits: row.limits(), bucket: row.BucketFullAt, room: 1}, now, false); err != nil {
		return 0, false, err
	}
	first := "NULL"
	if k.ordered {
		first = firstOfKey
	}
	tasks, err := k.tasks(t, nil, "SELECT "+sortedColumns+keyFacts+", "+first+" AS first_id FROM {tasks} t{index}{tasks}_claim{end}"+keyJoin+
		" WHERE t.state=0 AND t.pool=? AND (t.run_at<=? OR t.run_at=t.created_at) AND (t.expires_at=0 OR t.expires_at>? OR t.attempt>0)"+
		" ORDER BY t.rank_order, t.run_at, t.id LIMIT ?", pool, micros(now), micros(now), sortLimit)
	if err != nil || len(tasks) == 0 {
		return 0, false, err
	}
	by, _, _, err := t.liveKinds()
	has, known := by[pool]
	if err != nil || by != nil && !known {
		return 0, false, err
	}
	var behind []*openTask
	for i := range tasks {
		r := &tasks[i]
		if !has.have(r.Kind) || !k.sorts(r) {
			continue
		}
		k.rows[r.on].behind = true
		behind = append(behind, r)
	}
	if err := k.write(t, pool); err != nil {
		return 0, false, err
	}
	if behind, err = t.waitForKeys(k, behind); err != nil {
		return 0, false, err
	}
	if err := t.joinKeys(k.ordered, mapped(behind, func(r *openTask) openTask { return *r })); err != nil {
		return 0, false, err
	}
	return len(behind), len(behind) > 0 && len(tasks) == sortLimit, nil
}

// sorts reports whether a ready task is to wait, and notes for what.
func (k *poolKeys) sorts(r *openTask) bool {
	if !k.letsKind(r) {
		r.on, _ = k.kindOf(r)
		return true
	}
	if r.on = r.Key; k.ignores(r) || k.fair == nil && k.letsKey(r) {
		return false
	}
	if k.fair != nil {
		k.fair.join(r.Key, k.row(r.Key))
	}
	return true
}

// waitForKeys makes tasks wait for what their field on says, and returns those that do: another transaction may have changed some.
//
// Index: primary key of tasks.
func (t *tx) waitForKeys(k *poolKeys, tasks []*openTask) ([]*openTask, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	slices.SortFunc(tasks, func(a, b *openTask) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range tasks {
		r.Reason, r.ReasonCode = k.reason(r.on)
	}
	n, err := t.keyTasks(tasks)
	if err != nil || n == int64(len(tasks)) {
		return tasks, err
	}
	is, err := t.keyedTasks(tasks)
	return those(tasks, func(r *openTask) bool { return is[r.ID] == r.Token }), err
}

// keyedTasks is which of the tasks that were to wait do so, with their tokens.
//
// Index: primary key of tasks.
func (t *tx) keyedTasks(tasks []*openTask) (map[string]int64, error) {
	is := map[string]int64{}
	return is, each(t.rows("SELECT id, token FROM {tasks} WHERE {in name id} AND state+0=4", sqlkit.Keys(mapped(tasks, func(r *openTask) string { return r.ID }))),
		func(m *taskModel) { is[m.Task.ID] = m.Task.Token })
}
