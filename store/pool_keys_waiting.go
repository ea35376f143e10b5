package store

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// readFirst reads which task of each key is the first that has not ended. One that ended while its pool got the order may have a place still;
// it is looked up by a subquery of its own, since MariaDB makes a join of EXISTS, and with some statistics reads all tasks for each key.
//
// Index: primary keys of sequences, key_waits and tasks.
func (k *poolKeys) readFirst(t *tx, pool string) error {
	keys := slices.Sorted(maps.Keys(k.rows))
	if len(keys) == 0 {
		return nil
	}
	return each(t.rows(`SELECT task_key, (SELECT w.task_id FROM {key_waits} w{by_key} WHERE w.pool=s.pool AND w.task_key=s.task_key
			AND (SELECT COUNT(*) FROM {tasks} t{by_key} WHERE t.id=w.task_id)>0 ORDER BY w.place, w.rank_order, w.run_at, w.task_id LIMIT 1) AS id
		FROM {sequences} s WHERE s.pool=? AND {in name task_key}`, sqlkit.Keys(keys), pool),
		func(m *struct {
			TaskKey string
			ID      *string
		}) {
			if m.ID != nil {
				k.rows[m.TaskKey].first = *m.ID
			}
		})
}

// waiting reads the first tasks that wait for the keys that are looked at, as many as may start of each, and as many of all as there is
// room for; a scope leaves some out. With an order it is the first task of each key alone.
//
// Index: primary keys of key_waits and tasks.
func (k *poolKeys) waiting(t *tx, pool string, scope ledger.Scope, room int) ([]openTask, error) {
	open := those(k.looked, func(key string) bool { return k.room(k.rows[key]) > 0 })
	if len(open) == 0 {
		return nil, nil
	}
	if k.ordered {
		first, err := k.waitingFirst(t, pool, scope, those(open, func(key string) bool { return key != "" }))
		if open = those(open, func(key string) bool { return key == "" }); err != nil || len(open) == 0 {
			return first, err
		}
		keyless, err := k.waitingShares(t, pool, scope, room, open)
		return append(first, keyless...), err
	}
	return k.waitingShares(t, pool, scope, room, open)
}

// waitingShares reads as many of the tasks that wait for each of the keys as its share of the room is.
func (k *poolKeys) waitingShares(t *tx, pool string, scope ledger.Scope, room int, open []string) ([]openTask, error) {
	most := func(key string) int {
		n := min(k.share(key, room, open), k.room(k.rows[key]))
		if strings.HasPrefix(key, ofKind) && !k.is.None() { // some may have to wait for their key now
			n = max(n, keyLook)
		}
		return n
	}
	on, err := t.firstOf(pool, open, scope, most)
	if err != nil || len(on) == 0 {
		return nil, err
	}
	tasks, err := t.keyedTasks(pool, slices.Collect(maps.Keys(on)))
	read := map[string]int{}
	for i := range tasks {
		key := on[tasks[i].ID]
		tasks[i].on = key
		read[key]++
		row := k.rows[key]
		row.read, row.rest = true, read[key] == most(key)
	}
	return tasks, err
}

func (k *poolKeys) waitingFirst(t *tx, pool string, scope ledger.Scope, open []string) ([]openTask, error) {
	var ids []string
	for _, key := range open {
		r := k.rows[key]
		if r.held = true; r.first != "" {
			ids = append(ids, r.first)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	first, err := t.keyedTasks(pool, ids)
	for i, r := range first {
		first[i].on = r.Key
		k.rows[r.Key].held, k.rows[r.Key].read = false, true
	}
	return those(first, func(r openTask) bool { return scope.Kinds == nil || slices.Contains(scope.Kinds, r.Kind) }), err
}

// keyedTasks reads tasks that wait for their keys, in the order of claims.
func (t *tx) keyedTasks(pool string, ids []string) ([]openTask, error) {
	return t.openTasks(taskColumns, " WHERE {in name id} AND state+0=4 AND pool=? ORDER BY rank_order, run_at, id", sqlkit.Keys(sqlkit.Distinct(ids)), pool)
}

// firstOf reads the first tasks that wait for each of the keys, in one statement: the list of each ends where its limit says. It returns the key
// that each waits for.
func (t *tx) firstOf(pool string, keys []string, scope ledger.Scope, most func(key string) int) (map[string]string, error) {
	kinds, of := "", []any(nil)
	if scope.Kinds != nil {
		if len(scope.Kinds) == 0 {
			return nil, nil
		}
		list, args := sqlkit.List(scope.Kinds)
		kinds, of = " AND kind IN "+list, args
	}
	one := "SELECT task_id, task_key FROM (SELECT task_id, task_key FROM {key_waits} WHERE pool=? AND task_key=?" + kinds + " ORDER BY place, rank_order, run_at, task_id LIMIT ?) AS w"
	text, args := "", []any(nil)
	for i := range padded(len(keys)) {
		if i > 0 {
			text += " UNION ALL "
		}
		text += one
		key, limit := keys[min(i, len(keys)-1)], 0
		if i < len(keys) {
			limit = most(key)
		}
		args = slices.Concat(args, []any{pool, key}, of, []any{limit})
	}
	on := map[string]string{}
	err := each(t.rows(text, args...), func(m *keyWaitModel) { on[m.TaskID] = m.TaskKey })
	return on, err
}

// padded is how many parts a statement for n keys has: few texts are worth preparing.
func padded(n int) int {
	parts := 1
	for parts < n {
		parts *= 4
	}
	return parts
}
