package store

import (
	"cmp"
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
	tasks, err := k.firstInOrder(t, pool, those(open, k.inOrder))
	if err == nil {
		var others []openTask
		others, err = k.firstWaiting(t, pool, shared, scope, most)
		tasks = append(tasks, others...)
	}
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

// firstInOrder reads the first task of each of the keys that has not ended, if it waits for its key.
//
// Index: primary keys of sequences, key_waits, tasks and keys.
func (k *poolKeys) firstInOrder(t *tx, pool string, keys []string) ([]openTask, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return k.tasks(t, nil, "SELECT "+keyedColumns+", NULL AS first_id, w.task_key AS on_key, 1 AS on_place, 0 AS on_rank, 0 AS on_run_at"+
		" FROM (SELECT t.task_key, "+firstOfKey+" AS task_id FROM {sequences} t{by_key} WHERE t.pool=? AND {in name task_key}) AS w"+waitingTask,
		sqlkit.Keys(keys), pool, pool)
}

// firstWaiting reads the first tasks that wait for each of the keys, in one statement: the list of each ends one behind where its limit says, so
// that it is known whether more wait. In a scope it is not: then the next look finds out that nothing waits any more.
//
// Index: primary keys of key_waits, tasks and keys.
func (k *poolKeys) firstWaiting(t *tx, pool string, keys []string, scope ledger.Scope, most func(key string) int) ([]openTask, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	const columns = "task_id, task_key, place, rank_order, run_at"
	kinds, of := "", []any(nil)
	if len(scope.Kinds) > 0 {
		list, args := sqlkit.List(scope.Kinds)
		kinds, of = " AND kind IN "+list, args
	}
	text, args := "", []any(nil)
	for i := range padded(len(keys)) {
		if i > 0 {
			text += " UNION ALL "
		}
		key, limit := keys[min(i, len(keys)-1)], 0
		if i < len(keys) {
			limit = most(key) + 1
		}
		text += "SELECT " + columns + " FROM (SELECT " + columns + " FROM {key_waits}{by_key} WHERE pool=? AND task_key=?" + kinds +
			" ORDER BY place, rank_order, run_at, task_id LIMIT ?) AS w"
		args = slices.Concat(args, []any{pool, key}, of, []any{limit})
	}
	tasks, err := k.tasks(t, nil, "SELECT "+keyedColumns+", NULL AS first_id, w.task_key AS on_key, w.place AS on_place, w.rank_order AS on_rank, w.run_at AS on_run_at"+
		" FROM ("+text+") AS w"+waitingTask, append(args, pool)...)
	slices.SortFunc(tasks, func(a, b openTask) int {
		return cmp.Or(cmp.Compare(a.on, b.on), cmp.Compare(a.place.RankOrder, b.place.RankOrder), cmp.Compare(a.place.RunAt, b.place.RunAt), lockOrder(a, b))
	})
	read := map[string]int{}
	return those(tasks, func(r openTask) bool { // without the one that tells whether there are more
		n := read[r.on] + 1
		if read[r.on] = n; kinds == "" {
			k.rows[r.on].waiting = n
		}
		return n <= most(r.on)
	}), err
}

// waitingTask finds the task of a row w, if it waits for its key. An outer join is not read from its other end.
const waitingTask = " LEFT JOIN {tasks} t{by_key} ON t.id=w.task_id AND t.state+0=4 AND t.pool=?" + keyJoin + " WHERE COALESCE(t.id, '')<>''"

// padded is how many parts a statement for n keys has: few texts are worth preparing.
func padded(n int) int {
	parts := 1
	for parts < n {
		parts *= 4
	}
	return parts
}
