package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// joinKeys has tasks wait for their keys: behind those with a larger priority or an earlier due time, or with an order behind those
// that were enqueued before. Those that have a place already stay there.
//
// Index: primary key of key_waits; key_waits_task.
func (t *tx) joinKeys(ordered bool, tasks []openTask) error {
	var rows, keys [][]any
	for _, r := range tasks {
		switch {
		case ordered: // it was enqueued before the pool had an order
			rows = append(rows, []any{r.Pool, r.Key, micros(r.CreatedAt), 0, 0, r.ID, r.Kind})
			keys = append(keys, []any{r.Pool, r.Key})
		default:
			rows = append(rows, []any{r.Pool, r.Key, 0, -r.Priority, micros(r.RunAt), r.ID, r.Kind})
		}
	}
	inOrder := func(a, b []any) int { return cmp.Compare(a[1].(string), b[1].(string)) }
	slices.SortStableFunc(keys, inOrder)
	if _, err := t.InsertNew("{sequences} (pool, task_key)", keys); err != nil {
		return err
	}
	return t.insertPlaces(rows)
}

func (t *tx) insertPlaces(rows [][]any) error {
	slices.SortStableFunc(rows, func(a, b []any) int {
		return cmp.Or(cmp.Compare(a[0].(string), b[0].(string)), cmp.Compare(a[1].(string), b[1].(string)))
	})
	_, err := t.InsertNew("{key_waits} (pool, task_key, place, rank_order, run_at, task_id, kind)", rows)
	return err
}

// leaveKeys has tasks wait for their keys no more; with an order they keep their places.
//
// Index: key_waits_task.
func (t *tx) leaveKeys(tasks []string) error {
	_, err := t.Exec("{delete} {key_waits} AS t WHERE place=0 AND {in name task_id}", sqlkit.Keys(sqlkit.Distinct(tasks)))
	return err
}

// forgetKeys deletes the places of tasks that have ended.
//
// Index: key_waits_task.
func (t *tx) forgetKeys(tasks []string) error {
	_, err := t.Exec("{delete} {key_waits} AS t WHERE {in name task_id}", sqlkit.Keys(sqlkit.Distinct(tasks)))
	return err
}

// wakeKeys has claims look at the keys of tasks that end, or that others need not wait for any more. It comes before the tasks' own rows
// are written, in the order of locks. A row that says so already is locked as well, until the tasks have ended: a claim that looks meanwhile
// counts them after that.
//
// Index: primary key of keys.
func (t *tx) wakeKeys(moves []move) error {
	type key struct{ pool, key string }
	var all []key
	for _, m := range moves {
		if m.Key != "" {
			all = append(all, key{m.Pool, m.Key})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b key) int { return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.key, b.key)) })
	for part := range slices.Chunk(slices.Compact(all), sqlkit.MaxRows) {
		if _, err := t.Exec("UPDATE {each}{keys}{by_key} SET look_at={int look} WHERE look_at>0 AND {in name pool, name task_key}",
			sqlkit.Rows(part, func(k key) []any { return []any{int64(lookNow), k.pool, k.key} })); err != nil {
			return err
		}
	}
	return nil
}

// changeKeys has no task of a pool wait for its key, if its limits or its order by key change: claims have them wait again. The pool's row
// is locked. What a rate has started counts on.
//
// Index: tasks_claim; primary keys of keys and key_waits.
func (t *tx) changeKeys(pool string, is, to perKey, now time.Time) error {
	if is == to {
		return nil
	}
	if _, err := t.Exec("UPDATE {keys} SET look_at=0 WHERE pool=? AND look_at>0", pool); err != nil {
		return err
	}
	if is.Rate != to.Rate {
		rows, err := list(t.rows("SELECT task_key, bucket_full_at FROM {keys}{by_key} WHERE pool=? AND bucket_full_at>? ORDER BY task_key{for_update}", pool, now.UnixNano()),
			func(m *keyModel) []any {
				return []any{pool, m.TaskKey, int64(is.Converted(m.BucketFullAt, now, to.Limits))}
			})
		if err == nil {
			err = t.Upsert("{keys} (pool, task_key, bucket_full_at)", "pool, task_key", rows)
		}
		if err != nil {
			return err
		}
	}
	if err := t.unkeyTasks(pool); err != nil {
		return err
	}
	if is.order == to.order && is.order != "" {
		return nil // the places stay
	}
	if _, err := t.Exec("DELETE FROM {key_waits} WHERE pool=?", pool); err != nil || to.order == "" {
		return err
	}
	// Index: tasks_pool.
	if _, err := t.Exec("{insert_ignore} {sequences} (pool, task_key, last_place) SELECT DISTINCT pool, task_key, 0 FROM {tasks} WHERE pool=? AND task_key<>'' ORDER BY task_key", pool); err != nil {
		return err
	}
	_, err := t.Exec(`{insert_ignore} {key_waits} (pool, task_key, place, rank_order, run_at, task_id, kind)
		SELECT pool, task_key, created_at, 0, 0, id, kind FROM {tasks} WHERE pool=? AND task_key<>'' ORDER BY task_key, created_at, id`, pool)
	return err
}
