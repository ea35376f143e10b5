package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// joinKeys has tasks wait for what their field on says: behind those with a larger priority or an earlier due time, or with an order behind those
// that were enqueued before.
//
// Index: primary keys of key_waits and sequences; key_waits_task.
func (t *tx) joinKeys(ordered bool, tasks []openTask) error {
	inOrder := func(r openTask) bool { return ordered && r.Key != "" }
	if unplaced := those(tasks, inOrder); len(unplaced) > 0 {
		if err := t.placeLate(unplaced); err != nil {
			return err
		}
	}
	return t.insertPlaces(mapped(those(tasks, func(r openTask) bool { return !inOrder(r) }), func(r openTask) []any {
		return []any{r.Pool, r.on, 0, -r.Priority, micros(r.RunAt), r.ID, r.Kind}
	}))
}

// placeLate gives tasks a place that have none, as they were enqueued before their pool had an order. Who enqueues may have a sequence locked
// for as long as its transaction lasts: only those are written that are missing. The caller has the pool's row locked: until its end no sweep
// deletes one that is there.
func (t *tx) placeLate(tasks []openTask) error {
	placed, err := column[string](t.rows("SELECT task_id FROM {key_waits} WHERE {in name task_id}", sqlkit.Keys(mapped(tasks, openTask.id))))
	if err != nil {
		return err
	}
	tasks = those(tasks, func(r openTask) bool { return !slices.Contains(placed, r.ID) })
	if len(tasks) == 0 {
		return nil
	}
	keys := sqlkit.Distinct(mapped(tasks, func(r openTask) string { return r.Key }))
	known, err := column[string](t.rows("SELECT task_key FROM {sequences} WHERE pool=? AND {in name task_key}", sqlkit.Keys(keys), tasks[0].Pool))
	if err != nil {
		return err
	}
	missing := those(keys, func(key string) bool { return !slices.Contains(known, key) })
	if _, err := t.InsertNew("{sequences} (pool, task_key)", mapped(missing, func(key string) []any { return []any{tasks[0].Pool, key} })); err != nil {
		return err
	}
	return t.insertPlaces(mapped(tasks, func(r openTask) []any {
		return []any{r.Pool, r.Key, micros(r.CreatedAt), 0, 0, r.ID, r.Kind}
	}))
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
	if t.DB.Dialect.LocksRows() {
		return t.deletePlaces("{delete} {each}{key_waits} AS t{index}{key_waits}_task{end} WHERE {in name task_id} AND place=0", tasks)
	}
	return t.deletePlaces("{delete} {key_waits} AS t WHERE {in name task_id} AND place=0", tasks)
}

// forgetKeys deletes the places of tasks that have ended.
//
// Index: key_waits_task.
func (t *tx) forgetKeys(tasks []string) error {
	if t.DB.Dialect.LocksRows() {
		return t.deletePlaces("{delete} {each}{key_waits} AS t{index}{key_waits}_task{end} WHERE {in name task_id}", tasks)
	}
	return t.deletePlaces("{delete} {key_waits} AS t WHERE {in name task_id}", tasks)
}

// deletePlaces deletes rows of {key_waits} by their tasks. For a list of tasks MySQL would read a small table as a whole, and with it rows that
// transactions of users have locked: there the list is a table that is read first.
func (t *tx) deletePlaces(statement string, tasks []string) error {
	for part := range slices.Chunk(sqlkit.Distinct(tasks), sqlkit.MaxRows) {
		if _, err := t.Exec(statement, sqlkit.Keys(part)); err != nil {
			return err
		}
	}
	return nil
}

// leavePlaces has tasks wait for their keys no more whose rows in {key_waits} were read; with an order they keep their places.
func (t *tx) leavePlaces(places []*keyWaitModel) error {
	rows := mapped(those(places, func(m *keyWaitModel) bool { return m.Place == 0 }), (*keyWaitModel).key)
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[1].(string), b[1].(string)) })
	return t.deleteRows(rows)
}

// key is the primary key of the row.
func (m *keyWaitModel) key() []any {
	return []any{m.Pool, m.TaskKey, m.Place, int64(m.RankOrder), m.RunAt, m.TaskID}
}

// deleteRows deletes rows of {key_waits} by their whole key, as deletePlaces does by their tasks.
func (t *tx) deleteRows(rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	statement := "{delete} {key_waits} AS t{by_key} WHERE {in name pool, name task_key, int place, int rank_order, int run_at, name task_id}"
	if t.DB.Dialect.LocksRows() {
		statement = "{delete} {each}{key_waits} AS t{by_key} WHERE {in name pool, name task_key, int place, int rank_order, int run_at, name task_id}"
	}
	for part := range slices.Chunk(rows, sqlkit.MaxRows) {
		_, err := t.Exec(statement, sqlkit.Many(part))
		if err != nil {
			return err
		}
	}
	return nil
}

// poolKey is a key of a pool.
type poolKey struct{ pool, key string }

// keysOfMoves are the keys of tasks that end, or that others need not wait for any more, in the order of locks. Tasks without a key wait for
// it too, where keys share the pool.
func keysOfMoves(moves []move) (all []poolKey) {
	for _, m := range moves {
		if m.Key != "" || m.row == rowKeyed {
			all = append(all, poolKey{m.Pool, m.Key})
		}
		if m.Kind != "" && m.Job == "" && !m.anyKind {
			all = append(all, poolKey{m.Pool, ofKind + m.Kind})
		}
	}
	slices.SortFunc(all, func(a, b poolKey) int { return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.key, b.key)) })
	return slices.Compact(all)
}

// keyed is whether tasks wait for keys in pools, and whether tasks have places there: without, there is nothing to write when one ends.
type keyed struct {
	now          time.Time // zero: the database did not tell it
	wait, places bool
}

// keyed reads it. A task that begins to wait right after this is looked at soon, see lookAgain; and no place of a task that is there already
// comes later.
//
// Index: primary keys of pools and key_waits; keys_pool.
func (t *tx) keyed(pools []string) (k keyed, err error) {
	err = each(t.rows(`SELECT COALESCE({now}, 0) AS n, (SELECT k.look_at FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=p.name ORDER BY k.look_at DESC LIMIT 1) AS look_at,
			(SELECT w.place FROM {key_waits} w WHERE w.pool=p.name LIMIT 1) AS place
		FROM {pools} p WHERE {in name name}`, sqlkit.Keys(pools)),
		func(m *struct {
			N             int64
			LookAt, Place *int64
		}) {
			k.now = fromMicros(m.N)
			k.wait = k.wait || m.LookAt != nil && *m.LookAt > 0
			k.places = k.places || m.Place != nil
		})
	return k, err
}

// wakeKeys has claims look at keys whose tasks end, or that others need not wait for any more. It comes before the tasks' own rows are
// written, in the order of locks. A row that says so already is locked as well, until the tasks have ended: a claim that looks meanwhile
// counts them after that. places: tasks have places there, see forgetKeys.
//
// Index: primary key of keys.
func (t *tx) wakeKeys(now time.Time, moves []move) (places bool, err error) {
	var k keyed
	if all := keysOfMoves(moves); len(all) > 0 {
		if k, err = t.keyed(sqlkit.Distinct(mapped(all, func(k poolKey) string { return k.pool }))); err != nil {
			return false, err
		}
	}
	return t.wakeKnown(now, k, moves)
}

// wakeKnown is wakeKeys where the pools were read.
func (t *tx) wakeKnown(now time.Time, k keyed, moves []move) (places bool, err error) {
	places = k.places || slices.ContainsFunc(moves, func(m move) bool { return m.row == rowKeyed })
	if !k.wait {
		return places, nil
	}
	for part := range slices.Chunk(keysOfMoves(moves), sqlkit.MaxRows) {
		if _, err := t.Exec("UPDATE {keys}{by_key} SET look_at=CASE WHEN look_at<? THEN look_at ELSE ? END WHERE look_at>0 AND {in name pool, name task_key}",
			sqlkit.Rows(part, func(k poolKey) []any { return []any{k.pool, k.key} }), micros(now), micros(now)); err != nil {
			return places, err
		}
	}
	return places, nil
}
