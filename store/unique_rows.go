package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// lockUnique makes or locks the rows, in order, and reads them.
//
// Index: primary key.
func (t *tx) lockUnique(batch []*newTask, now time.Time) ([]*unique, error) {
	by := map[[2]string]*unique{}
	for _, p := range batch {
		if p.values == "" || p.existed || p.first != nil {
			continue
		}
		key := [2]string{p.task.Pool, p.values}
		if by[key] == nil {
			by[key] = &unique{row: p.uniqueRow(now)}
		}
		by[key].asked = append(by[key].asked, p)
	}
	if len(by) == 0 {
		return nil, nil
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b *unique) int {
		return cmp.Or(cmp.Compare(a.row.Pool, b.row.Pool), cmp.Compare(a.row.ValuesHash, b.row.ValuesHash))
	})
	key := func(u *unique) []any { return []any{u.row.Pool, u.row.ValuesHash} }
	rows := mapped(all, func(u *unique) []any { return u.row.values() })
	if err := t.Upsert("{unique_tasks} (pool, values_hash, task_id, unique_until, unique_while, token, look_at)", "pool, values_hash", rows, "pool"); err != nil { // locks those that are there
		return nil, err
	}
	for part := range slices.Chunk(all, sqlkit.MaxRows) {
		err := each(t.rows("SELECT pool, values_hash, task_id, unique_until, unique_while, token, look_at FROM {unique_tasks}{by_key} WHERE {in name pool, name values_hash}{for_update}", sqlkit.Rows(part, key)),
			func(m *uniqueModel) {
				by[[2]string{m.Pool, m.ValuesHash}].row = *m
			})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (m uniqueModel) values() []any {
	return []any{m.Pool, m.ValuesHash, m.TaskID, m.UniqueUntil, m.UniqueWhile, m.Token, m.LookAt}
}

// readUnique reads the tasks that have the rows, as far as they decide something. What a transaction of a caller decides by, and what is
// replaced, is locked until its end: a claim comes before that, and is seen, or after it, and sees what the transaction wrote. Elsewhere it is
// enough that the task was so at a moment of the call.
//
// The snapshot of a caller's transaction may be old: what it has of a task that has ended, or was claimed, stays true.
//
// Index: primary keys.
func (t *tx) readUnique(all []*unique, now time.Time) error {
	asks := those(all, func(u *unique) bool { return u.met() && (u.replaces() || u.row.UniqueUntil <= micros(now)) })
	if len(asks) == 0 {
		return nil
	}
	byID := map[string]*unique{}
	for _, u := range asks {
		byID[u.row.TaskID] = u
	}
	ids := sqlkit.Distinct(mapped(asks, func(u *unique) string { return u.row.TaskID }))
	read := func(ids []string, lock string) error {
		for part := range slices.Chunk(ids, sqlkit.MaxRows) {
			rows, err := t.openTasks(taskColumns, "{by_key} WHERE {in name id} ORDER BY id"+lock, sqlkit.Keys(part))
			if err != nil {
				return err
			}
			for i := range rows {
				byID[rows[i].ID].open = &rows[i]
			}
		}
		return nil
	}
	if err := read(ids, ""); err != nil {
		return err
	}
	ended := map[string]bool{}
	if t.callers {
		missing := those(ids, func(id string) bool { return byID[id].open == nil })
		done, err := column[string](t.rows("SELECT id FROM {done} WHERE {in name id}", sqlkit.Keys(missing)))
		if err != nil {
			return err
		}
		for _, id := range done {
			ended[id] = true
		}
	}
	locked := those(ids, func(id string) bool {
		u := byID[id]
		if u.open == nil {
			return t.callers && !ended[id]
		}
		return (t.callers || u.replaces()) && u.holds(now)
	})
	if err := t.wakeUnique(now, locked, byID); err != nil {
		return err
	}
	unseen := those(locked, func(id string) bool { return byID[id].open == nil })
	for _, id := range locked {
		byID[id].open = nil
	}
	if err := read(locked, "{for_update}"); err != nil {
		return err
	}
	return t.wakeUnique(now, unseen, byID)
}

// wakeUnique is wakeKeys of the tasks that are replaced.
func (t *tx) wakeUnique(now time.Time, ids []string, byID map[string]*unique) error {
	var moves []move
	for _, id := range ids {
		if u := byID[id]; u.open != nil && u.replaces() {
			moves = append(moves, move{openTask: *u.open})
		}
	}
	_, err := t.wakeKeys(now, moves)
	return err
}

// writeUnique writes the rows that changed, and the tasks that are replaced.
func (t *tx) writeUnique(all []*unique) error {
	var rows [][]any
	var replaced []replacement
	var keyed, waited []string
	for _, u := range all {
		if u.wanted {
			rows = append(rows, u.row.values())
		}
		if u.is == nil {
			continue
		}
		replaced = append(replaced, replacement{*u.open, *u.is})
		switch u.open.row {
		case rowKeyed:
			keyed = append(keyed, u.is.ID)
		case rowLocked:
			waited = append(waited, u.is.ID)
		}
	}
	if err := t.Upsert("{unique_tasks} (pool, values_hash, task_id, unique_until, unique_while, token, look_at)", "pool, values_hash", rows); err != nil {
		return err
	}
	if err := t.replacePending(replaced); err != nil {
		return err
	}
	if err := t.leaveKeys(keyed); err != nil {
		return err
	}
	return t.forgetWaits(waited)
}

// changeUnique keeps the row of a unique task that was not claimed up to date, whose token changes. It comes before the task's own row is
// written, in the order of locks.
//
// Index: unique_tasks_task; primary key.
func (t *tx) changeUnique(was, is openTask) error {
	var row uniqueModel
	found, err := t.One("SELECT pool, values_hash FROM {unique_tasks} WHERE task_id=?", []any{was.ID}, &row.Pool, &row.ValuesHash)
	if err != nil || !found {
		return err
	}
	_, err = t.Exec("UPDATE {unique_tasks} SET token=? WHERE pool=? AND values_hash=? AND task_id=? AND token=?", is.Token, row.Pool, row.ValuesHash, was.ID, was.Token)
	return err
}
