package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A unique task has a row in {unique_tasks}, of what it is compared by. Who enqueues makes the row, or waits for who has it, and keeps it
// locked; so of those that enqueue tasks with the same values one decides at a time.
//
// Claims and ends write nothing there. Whether the uniqueness has ended is decided by the next enqueue that meets the row: by its time, and by
// the row of its task. A task whose token is larger than that of the row was claimed once, whatever its state is now: claims make tokens
// larger, and a change of a pending task makes both larger.

// unique is what an enqueue knows of one row of {unique_tasks}.
type unique struct {
	row    uniqueModel
	asked  []*newTask // in the order of the batch
	open   *openTask  // the task that has the row; nil: it has ended
	is     *openTask  // the same, as it is replaced
	wanted bool       // a statement has to write the row
}

// uniqueOf is the hash of what a task is compared by; "" if it is not unique.
func uniqueOf(n jobs.NewTask, payload json.RawMessage) string {
	if n.Unique == nil {
		return ""
	}
	sum := sha256.Sum256(n.UniqueValues(payload))
	return hex.EncodeToString(sum[:])
}

// takeUnique gives the rows of unique tasks to the first new ones with their values, where no uniqueness holds, and has the others do what they
// say. It comes after all that may refuse the batch and leave the transaction open.
func (t *tx) takeUnique(batch []*newTask, now time.Time) error {
	all, err := t.lockUnique(batch, now)
	if err != nil || len(all) == 0 {
		return err
	}
	if err := t.readUnique(all, now); err != nil {
		return err
	}
	for _, u := range all {
		if err := u.decide(now); err != nil {
			return err
		}
	}
	if err := t.writeUnique(all); err != nil {
		return err
	}
	return t.repointKeys(batch)
}

// lockUnique makes or locks the rows, in order, and reads them.
//
// A duplicate that an insert meets is locked with the gap before it, where the isolation of a caller's transaction says so, and others could not
// add values that fall into it. So there the rows that are known are locked alone.
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
	fresh := all
	if t.callers && t.DB.Dialect.LocksRows() {
		known := map[[2]string]bool{}
		for part := range slices.Chunk(all, sqlkit.MaxRows) {
			err := each(t.rows("SELECT pool, values_hash FROM {unique_tasks} WHERE {in name pool, name values_hash}", sqlkit.Rows(part, key)),
				func(m *uniqueModel) { known[[2]string{m.Pool, m.ValuesHash}] = true })
			if err != nil {
				return nil, err
			}
		}
		fresh = those(all, func(u *unique) bool { return !known[[2]string{u.row.Pool, u.row.ValuesHash}] })
	}
	rows := mapped(fresh, func(u *unique) []any { return u.row.values() })
	if err := t.Upsert("{unique_tasks} (pool, values_hash, task_id, unique_until, unique_while, token, look_at)", "pool, values_hash", rows, "pool"); err != nil { // locks those that are there
		return nil, err
	}
	found := 0
	for part := range slices.Chunk(all, sqlkit.MaxRows) {
		err := each(t.rows("SELECT pool, values_hash, task_id, unique_until, unique_while, token, look_at FROM {unique_tasks}{by_key} WHERE {in name pool, name values_hash}{for_update}", sqlkit.Rows(part, key)),
			func(m *uniqueModel) {
				by[[2]string{m.Pool, m.ValuesHash}].row = *m
				found++
			})
		if err != nil {
			return nil, err
		}
	}
	if found < len(all) { // one that was known was swept before it was locked
		return nil, sqlkit.ErrMoved
	}
	return all, nil
}

func (m uniqueModel) values() []any {
	return []any{m.Pool, m.ValuesHash, m.TaskID, m.UniqueUntil, m.UniqueWhile, m.Token, m.LookAt}
}

// uniqueRow is the row of a task that is new now.
func (p *newTask) uniqueRow(now time.Time) uniqueModel {
	m := uniqueModel{Pool: p.task.Pool, ValuesHash: p.values, TaskID: p.own, UniqueWhile: string(p.unique.While), LookAt: micros(now)}
	if p.unique.For > 0 {
		m.UniqueUntil = micros(now.Add(p.unique.For))
		m.LookAt = m.UniqueUntil
	}
	return m
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

// met reports whether the row is another task's.
func (u *unique) met() bool { return u.row.TaskID != u.asked[0].own }

func (u *unique) replaces() bool {
	return slices.ContainsFunc(u.asked, func(p *newTask) bool { return p.unique.OnConflict == jobs.ConflictReplaces })
}

// holds reports whether the task that has the row keeps others out.
func (u *unique) holds(now time.Time) bool {
	switch {
	case u.row.UniqueUntil > micros(now):
		return true
	case u.open == nil:
		return false
	}
	return u.row.UniqueWhile == string(jobs.WhileOpen) ||
		u.row.UniqueWhile == string(jobs.WhilePending) && u.open.row != rowRunning && u.open.Token <= u.row.Token
}

// decide gives the row to the first task that asks, unless another one holds it, and has the others do what they say.
func (u *unique) decide(now time.Time) error {
	var added *newTask // the one of the batch that has the row
	others := u.asked
	switch {
	case !u.met():
		added, others = u.asked[0], u.asked[1:]
	case !u.holds(now):
		added, others = u.asked[0], u.asked[1:]
		u.row, u.wanted = added.uniqueRow(now), true
	}
	for _, p := range others {
		p.existed, p.task.ID, p.added = true, u.row.TaskID, p.key != ""
		var err error
		switch {
		case p.unique.OnConflict == jobs.ConflictRejects:
			err = p.conflict(u.row.TaskID, "exists, and on_conflict is reject")
		case p.unique.OnConflict != jobs.ConflictReplaces:
		case added != nil:
			err = p.replaceNew(added)
		default:
			err = u.replace(p, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *newTask) conflict(id, what string) error {
	return fmt.Errorf("task %s of pool %q with the same %s %s: %w", id, p.task.Pool, strings.Join(p.unique.By, ", "), what, jobs.ErrConflict)
}

// sameWork reports whether a task with this kind and key may get what p has.
func (p *newTask) sameWork(is jobs.Task) error {
	if is.Kind != p.task.Kind || is.Key != p.task.Key {
		return p.conflict(is.ID, fmt.Sprintf("has kind %q and key %q, which a replacement does not change; name kind and key in by", is.Kind, is.Key))
	}
	return nil
}

// replaceNew changes a task of the same batch.
func (p *newTask) replaceNew(added *newTask) error {
	if err := p.sameWork(added.task); err != nil {
		return err
	}
	k, was := &added.task, p.made
	k.Payload, k.PayloadSize, k.Priority, k.Tags, k.RunAt = was.Payload, was.PayloadSize, was.Priority, was.Tags, was.RunAt
	added.runAt = was.RunAt
	return nil
}

// replace changes a pending task as UpdateTask does. What one batch replaces several times is written once.
func (u *unique) replace(p *newTask, now time.Time) error {
	if u.open == nil || u.open.row == rowRunning {
		return nil
	}
	if err := p.sameWork(u.open.Task); err != nil {
		return err
	}
	tags := p.made.Tags
	is := changed(*u.open, wire.TaskChange{RunAt: &p.made.RunAt, Priority: &p.made.Priority, Tags: &tags}, now)
	is.Payload, is.PayloadSize = p.made.Payload, p.made.PayloadSize
	if u.open.Token == u.row.Token && !u.wanted {
		u.row.Token, u.wanted = is.Token, true
	}
	u.is, p.replaced = &is, &is
	return nil
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

// repointKeys has the idempotency keys of tasks that met another one stand for that.
func (t *tx) repointKeys(batch []*newTask) error {
	var rows [][]any
	for _, p := range batch {
		if p.first != nil {
			p.task.ID, p.existed = p.first.task.ID, true
		}
		if p.added {
			rows = append(rows, []any{p.task.Pool, p.key, p.task.ID, p.body, 0})
		}
	}
	return t.Upsert("{idempotency} (pool, idem_key, task_id, body, created_at)", "pool, idem_key", rows, "task_id")
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

// batchKept reports whether the COMMIT of a batch without an answer happened, by one of the rows that it wrote.
func (t *tx) batchKept(batch []*newTask) (bool, error) {
	for _, p := range batch {
		if !p.existed {
			return t.kept(p.task.ID)
		}
	}
	for _, p := range batch {
		if p.replaced != nil {
			return t.replacedKept(*p.replaced)
		}
	}
	for _, p := range batch {
		if p.added {
			return t.One("SELECT 1 FROM {idempotency} WHERE pool=? AND idem_key=? AND task_id=?{for_update}", []any{p.task.Pool, p.key, p.task.ID}, new(int))
		}
	}
	return true, nil // nothing was written
}

// replacedKept reports whether a replaced task is, or was claimed, as it was written. If another change came after it, nothing is lost if the
// replacement is made again.
func (t *tx) replacedKept(wrote openTask) (bool, error) {
	rows, err := t.openTasks(taskColumns, " WHERE id=?{for_update}", wrote.ID)
	if err != nil {
		return false, err
	}
	if len(rows) > 0 {
		return wasWritten(rows[0].Task, wrote.Task), nil
	}
	ended, err := t.tasksByID([]string{wrote.ID})
	return wasWritten(ended[wrote.ID], wrote.Task), err
}
