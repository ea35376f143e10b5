package store

import (
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// waiting reads the first tasks that wait for the keys that are looked at, as many as may start of each, and as many of all as there is
// room for; a scope leaves some out. With an order it is the first task of each key alone, whatever it waits for.
func (k *poolKeys) waiting(t *tx, pool string, scope ledger.Scope, room int) ([]openTask, error) {
	open := those(k.looked, func(key string) bool { return k.room(k.rows[key]) > 0 })
	if scope.Kinds != nil && len(scope.Kinds) == 0 {
		if !k.ordered {
			return nil, nil
		}
		open = those(open, func(key string) bool { return key != "" })
	}
	if len(open) == 0 {
		return nil, nil
	}
	shared := those(open, func(key string) bool { return !k.inOrder(key) })
	most := func(key string) int {
		if k.inOrder(key) {
			return 1
		}
		n := min(k.share(key, room, shared), k.room(k.rows[key]))
		if strings.HasPrefix(key, ofKind) && !k.is.None() { // some may have to wait for their key now
			n = max(n, keyLook)
		}
		return n
	}
	for _, key := range open {
		k.rows[key].held = k.inOrder(key)
	}
	tasks, err := k.firstWaiting(t, pool, open, scope, most)
	if err != nil {
		return nil, err
	}
	read := map[string]int{}
	for i := range tasks {
		key := tasks[i].on
		read[key]++
		r := k.rows[key]
		r.held, r.read, r.rest = false, true, read[key] == most(key) && !k.inOrder(key)
		if k.inOrder(key) {
			r.first = tasks[i].ID
		}
	}
	return those(tasks, func(r openTask) bool { return scope.Kinds == nil || slices.Contains(scope.Kinds, r.Kind) }), nil
}

// inOrder reports whether only the first of the tasks with a key may start.
func (k *poolKeys) inOrder(key string) bool { return k.ordered && key != "" }

// firstWaiting reads the first tasks that wait for each of the keys, in one statement: the list of each ends where its limit says. How many
// wait is counted up to one more than that, in whatever scope. The rows of the lists are looked up in their order: an outer join is not read
// from its other end.
//
// Index: primary keys of key_waits, tasks and keys.
func (k *poolKeys) firstWaiting(t *tx, pool string, keys []string, scope ledger.Scope, most func(key string) int) ([]openTask, error) {
	kinds, of := "", []any(nil)
	if len(scope.Kinds) > 0 {
		list, args := sqlkit.List(scope.Kinds)
		kinds, of = " AND kind IN "+list, args
	}
	const (
		counted = "(SELECT COUNT(*) FROM (SELECT task_id FROM {key_waits}{by_key} WHERE pool=? AND task_key=? LIMIT ?) AS c)"
		columns = "task_id, task_key, place, rank_order, run_at"
		order   = " ORDER BY place, rank_order, run_at, task_id LIMIT ?) AS w"
	)
	text, args := "", []any(nil)
	for i := range padded(len(keys)) {
		if i > 0 {
			text += " UNION ALL "
		}
		key, limit := keys[min(i, len(keys)-1)], 0
		if i < len(keys) {
			limit = most(key)
		}
		if k.inOrder(key) {
			text += "SELECT " + columns + ", 0 AS waiting FROM (SELECT " + columns + " FROM {key_waits} w{by_key} WHERE pool=? AND task_key=? AND " + notEnded + order
			args = append(args, pool, key, limit)
			continue
		}
		text += "SELECT " + columns + ", " + counted + " AS waiting FROM (SELECT " + columns + " FROM {key_waits}{by_key} WHERE pool=? AND task_key=?" + kinds + order
		args = slices.Concat(args, []any{pool, key, limit + 1, pool, key}, of, []any{limit})
	}
	return k.tasks(t, "SELECT "+keyedColumns+", NULL AS first_id, w.task_key AS on_key, w.place AS on_place, w.rank_order AS on_rank, w.run_at AS on_run_at, w.waiting"+
		" FROM ("+text+") AS w LEFT JOIN {tasks} t{by_key} ON t.id=w.task_id AND t.state+0=4 AND t.pool=?"+keyJoin+" WHERE COALESCE(t.id, '')<>''",
		append(args, pool)...)
}

// padded is how many parts a statement for n keys has: few texts are worth preparing.
func padded(n int) int {
	parts := 1
	for parts < n {
		parts *= 4
	}
	return parts
}
