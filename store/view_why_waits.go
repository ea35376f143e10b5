package store

import (
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// whyKey adds what holds up a task by its key, if that concerns it.
//
// Index: primary keys of keys and tasks, and of key_waits in its order; key_waits_task; tasks_claim.
func (t *tx) whyKey(r *openTask, pool *poolModel, f *ledger.Facts) error {
	keys := pool.keys()
	if kind, limited := keys.kindOf(r); limited {
		if err := t.whyKind(r, kind, keys.row(kind).limits, f); err != nil {
			return err
		}
	}
	if keys.ignores(r) {
		return nil
	}
	is := &ledger.KeyFacts{Turn: r.row == rowKeyed && r.ReasonCode != reason.WaitsForKind}
	f.Key = is
	var err error
	if r.Key != "" {
		if is.Running, err = t.runningOf(r.Pool, " AND task_key=?", r.Key); err != nil {
			return err
		}
	}
	err = each(t.rows("SELECT bucket_full_at FROM {keys} WHERE pool=? AND task_key=?", r.Pool, r.Key), func(m *keyModel) { is.Bucket = m.BucketFullAt })
	if err != nil {
		return err
	}
	is.Bucket = keys.is.Limits.Possible(is.Bucket, f.At)
	place := keyWaitModel{RankOrder: -r.Priority, RunAt: micros(r.RunAt), TaskID: r.ID}
	err = each(t.rows("SELECT place, rank_order, run_at, task_id FROM {key_waits} WHERE task_id=?", r.ID), func(m *keyWaitModel) { place = *m })
	if err != nil {
		return err
	}
	ordered := keys.ordered && r.Key != ""
	if ordered && place.Place == 0 { // from before the pool had an order
		place = keyWaitModel{Place: micros(r.CreatedAt), TaskID: r.ID}
	}
	if is.Before, err = t.beforeInKey(r.Pool, r.Key, &place); err != nil || !ordered || is.Before.N == 0 {
		return err
	}
	return t.firstOfKey(r, is)
}

// whyKind adds what holds up a task by its kind, whose row in {keys} has a key of its own.
//
// Index: tasks_claim; primary key of keys.
func (t *tx) whyKind(r *openTask, key string, limits ledger.Limits, f *ledger.Facts) (err error) {
	f.Kind = &ledger.KindFacts{Limits: limits}
	if f.Kind.Running, err = t.runningOf(r.Pool, " AND kind=? AND job=''", r.Kind); err != nil {
		return err
	}
	err = each(t.rows("SELECT bucket_full_at FROM {keys} WHERE pool=? AND task_key=?", r.Pool, key), func(m *keyModel) { f.Kind.Bucket = m.BucketFullAt })
	f.Kind.Bucket = limits.Possible(f.Kind.Bucket, f.At)
	return err
}

// beforeInKey counts the tasks of a key that have a place before one.
func (t *tx) beforeInKey(pool, key string, p *keyWaitModel) (ledger.Count, error) {
	const waits = "(SELECT COUNT(*) FROM (SELECT task_id FROM {key_waits}{by_key} WHERE pool=? AND task_key=? AND "
	most := ledger.WhyMost + 1
	return t.counted("SELECT "+waits+"place<? LIMIT ?) AS a)+"+waits+"place=? AND rank_order<? LIMIT ?) AS b)+"+
		waits+"place=? AND rank_order=? AND run_at<? LIMIT ?) AS c)+"+waits+"place=? AND rank_order=? AND run_at=? AND task_id<? LIMIT ?) AS d)",
		pool, key, p.Place, most, pool, key, p.Place, p.RankOrder, most,
		pool, key, p.Place, p.RankOrder, p.RunAt, most, pool, key, p.Place, p.RankOrder, p.RunAt, p.TaskID, most)
}

// firstOfKey reads the first task of a key that has not ended. One that ended while its pool got the order may have a place still.
func (t *tx) firstOfKey(r *openTask, is *ledger.KeyFacts) error {
	var id string
	_, err := t.One(`SELECT w.task_id FROM {key_waits} w{by_key} WHERE w.pool=? AND w.task_key=? AND EXISTS (SELECT 1 FROM {tasks} t WHERE t.id=w.task_id)
		ORDER BY w.place, w.rank_order, w.run_at, w.task_id LIMIT 1`, []any{r.Pool, r.Key}, &id)
	if err != nil || id == "" || id == r.ID {
		return err
	}
	first, err := t.openTasks(taskFacts, " WHERE id=?", id)
	if len(first) > 0 {
		is.First = &first[0].Task
	}
	return err
}

// whyLocks are the locks that a task waits for.
//
// Index: lock_waits_task; primary key of lock_waits, in its order.
func (t *tx) whyLocks(r *openTask, live []ledger.LiveReplica) ([]ledger.LockFacts, error) {
	rows, err := list(t.rows("SELECT lock_key, rank_order, run_at, task_id, session_id FROM {lock_waits} WHERE task_id=?", r.ID), func(m *lockWaitModel) lockWaitModel { return *m })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b lockWaitModel) int { return strings.Compare(a.LockKey, b.LockKey) })
	all := make([]ledger.LockFacts, len(rows))
	for i, m := range rows {
		is := &all[i]
		is.Key = m.LockKey
		if is.Before, err = t.beforeInLock(&m); err != nil {
			return nil, err
		}
		if is.Before.N > 0 {
			if _, err = t.One("SELECT task_id FROM {lock_waits}{by_key} WHERE lock_key=? ORDER BY rank_order, run_at, task_id LIMIT 1", []any{m.LockKey}, &is.First); err != nil {
				return nil, err
			}
		}
		for _, l := range live {
			if l.Session == m.SessionID {
				is.Queued = l.Replica
			}
		}
	}
	return all, nil
}

// beforeInLock counts the tasks that wait for a lock and come before one.
func (t *tx) beforeInLock(m *lockWaitModel) (ledger.Count, error) {
	const waits = "(SELECT COUNT(*) FROM (SELECT task_id FROM {lock_waits}{by_key} WHERE lock_key=? AND "
	most := ledger.WhyMost + 1
	return t.counted("SELECT "+waits+"rank_order<? LIMIT ?) AS a)+"+waits+"rank_order=? AND run_at<? LIMIT ?) AS b)+"+waits+"rank_order=? AND run_at=? AND task_id<? LIMIT ?) AS c)",
		m.LockKey, m.RankOrder, most, m.LockKey, m.RankOrder, m.RunAt, most, m.LockKey, m.RankOrder, m.RunAt, m.TaskID, most)
}
