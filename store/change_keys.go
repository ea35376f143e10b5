package store

import (
	"context"
	"maps"
	"time"
)

const (
	// moveLimit is how many tasks of a pool get places, or lose them, in one transaction.
	moveLimit = 1000
	// moveAtOnce is the same in the transaction that changes the order: it has the replica's session and other pools locked.
	moveAtOnce = 100
)

// changeKeys has claims look at all keys of a pool for which tasks wait, if its limits by key change, or whether keys share it, and says in the
// row that tasks wait where nothing by key is left: that they are many makes no large transaction. If its order changes, each task gets a place,
// or loses it. Until all have, see moveKeys, nothing starts: the row says so. The pool's row is locked, and written by the caller. What a rate
// has started counts on.
//
// Index: primary key of keys; keys_pool.
func (t *tx) changeKeys(row *poolModel, is perKey, now time.Time) error {
	pool, to := row.Name, row.perKey()
	if is.equal(to) {
		return nil
	}
	if _, err := t.Exec("UPDATE {keys}{index}{keys}_pool{end} SET look_at=? WHERE pool=? AND look_at>0", micros(now), pool); err != nil {
		return err
	}
	row.KeysLeft = !to.some()
	if is.Rate != to.Rate || !maps.Equal(is.kinds, to.kinds) {
		rows, err := list(t.rows("SELECT task_key, bucket_full_at FROM {keys}{by_key} WHERE pool=? AND bucket_full_at>? ORDER BY task_key{for_update}", pool, now.UnixNano()),
			func(m *keyModel) []any {
				return []any{pool, m.TaskKey, int64(is.of(m.TaskKey).Converted(m.BucketFullAt, now, to.of(m.TaskKey)))}
			})
		if err == nil {
			err = t.Upsert("{keys} (pool, task_key, bucket_full_at)", "pool, task_key", rows)
		}
		if err != nil {
			return err
		}
	}
	if is.order == to.order {
		return nil
	}
	row.KeysMoved = new("")
	return t.moveSome(row, moveAtOnce)
}

// moveKeys goes on with what changeKeys has begun in a pool, in a transaction of its own, and reports whether there may be more to do: nothing
// starts in the pool until it says no. If another process does it just now, it does nothing.
func (s *Store) moveKeys(ctx context.Context, pool string) (more bool, err error) {
	err = s.sure(ctx, "move tasks", func(t *tx) error {
		var row poolModel
		err := each(t.rows("SELECT "+poolColumns+" FROM {pools}{by_key} WHERE name=?{for_update}{skip_locked}", pool), func(m *poolModel) { row = *m })
		if more = err == nil && row.KeysMoved != nil; !more {
			return err
		}
		if err := t.moveSome(&row, moveLimit); err != nil {
			return err
		}
		_, err = t.Exec("UPDATE {pools} SET keys_moved=? WHERE name=?", orNull(row.KeysMoved), pool)
		return err
	})
	return more, err
}

// moveSome moves up to limit tasks of a pool, and notes in its row how far it has come.
//
//  1. those that wait for their keys are ready again: claims have them wait anew
//  2. without an order: places are deleted
//  3. with one: all tasks get places, in the order of their ids; those that were enqueued since have theirs
//
// Index: tasks_claim and tasks_pool; primary keys of tasks, sequences and key_waits; key_waits_task.
func (t *tx) moveSome(row *poolModel, limit int) error {
	ordered := row.perKey().order != ""
	waiting, err := column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_claim{end} WHERE state=4 AND pool=? LIMIT ?", row.Name, limit))
	if err == nil && len(waiting) > 0 {
		err = t.unkeyTasks(waiting)
	}
	if err != nil {
		return err
	}
	leave := t.forgetKeys
	if ordered {
		leave = t.leaveKeys
	}
	if err := leave(waiting); err != nil || len(waiting) == limit {
		return err
	}
	if !ordered {
		places, err := list(t.rows(`SELECT pool, task_key, place, rank_order, run_at, task_id FROM {key_waits}{by_key} WHERE pool=?
			ORDER BY pool, task_key, place, rank_order, run_at, task_id LIMIT ?`, row.Name, limit), (*keyWaitModel).key)
		if err == nil {
			err = t.deleteRows(places)
		}
		if len(places) < limit {
			row.KeysMoved = nil
		}
		return err
	}
	tasks, err := t.openTasks("id, pool, kind, task_key, created_at", "{index}{tasks}_pool{end} WHERE pool=? AND id>? ORDER BY id LIMIT ?", row.Name, *row.KeysMoved, limit)
	if err == nil {
		err = t.placeLate(those(tasks, func(r openTask) bool { return r.Key != "" }))
	}
	if row.KeysMoved = nil; len(tasks) == limit {
		row.KeysMoved = &tasks[limit-1].ID
	}
	return err
}
