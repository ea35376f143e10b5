package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
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

// uniqueRow is the row of a task that is new now.
func (p *newTask) uniqueRow(now time.Time) uniqueModel {
	m := uniqueModel{Pool: p.task.Pool, ValuesHash: p.values, TaskID: p.own, UniqueWhile: string(p.unique.While), LookAt: micros(now)}
	if p.unique.For > 0 {
		m.UniqueUntil = micros(now.Add(p.unique.For))
		m.LookAt = m.UniqueUntil
	}
	return m
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
			err = p.conflict(u.named(added), "exists, and on_conflict is reject")
		case p.unique.OnConflict != jobs.ConflictReplaces:
		case added != nil:
			err = p.replaceNew(u.named(added), added)
		default:
			err = u.replace(p, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named is how messages call the task that has the row.
func (u *unique) named(added *newTask) string {
	if added != nil {
		return "an earlier task of the list"
	}
	return "task " + u.row.TaskID
}

func (p *newTask) conflict(name, what string) error {
	return fmt.Errorf("%s, of pool %q with the same %s, %s: %w", name, p.task.Pool, strings.Join(p.unique.By, ", "), what, jobs.ErrConflict)
}

// sameWork reports whether a task with this kind and key may get what p has.
func (p *newTask) sameWork(name string, is jobs.Task) error {
	if is.Kind != p.task.Kind || is.Key != p.task.Key {
		return p.conflict(name, fmt.Sprintf("has kind %q and key %q, which a replacement does not change; name kind and key in by", is.Kind, is.Key))
	}
	return nil
}

// replaceNew changes a task of the same batch.
func (p *newTask) replaceNew(name string, added *newTask) error {
	if err := p.sameWork(name, added.task); err != nil {
		return err
	}
	if added.given == nil {
		added.given = new(added.task)
		added.given.RunAt = added.runAt
	}
	k := &added.task
	k.Payload, k.PayloadSize, k.Priority, k.Tags, k.RunAt, k.ExpiresAt = p.task.Payload, p.task.PayloadSize, p.task.Priority, p.task.Tags, p.runAt, p.task.ExpiresAt
	added.runAt = p.runAt
	return nil
}

// replace changes a pending task as UpdateTask does. What one batch replaces several times is written once.
func (u *unique) replace(p *newTask, now time.Time) error {
	if u.open == nil || u.open.row == rowRunning {
		return nil
	}
	if err := p.sameWork(u.named(nil), u.open.Task); err != nil {
		return err
	}
	is := changed(*u.open, wire.TaskChange{RunAt: &p.runAt, ExpiresAt: &p.task.ExpiresAt, Priority: &p.task.Priority, Tags: &p.task.Tags}, now)
	is.Payload, is.PayloadSize = p.task.Payload, p.task.PayloadSize
	if u.open.Token == u.row.Token && !u.wanted {
		u.row.Token, u.wanted = is.Token, true
	}
	u.is, p.replaced = &is, &is
	return nil
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
