package memstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// uniqueTask is a row of unique_tasks.
type uniqueTask struct {
	Pool   string `col:"pool"`
	Values string `col:"values_hash"`
	TaskID string `col:"task_id"`
	Until  int64  `col:"unique_until"`
	While  string `col:"unique_while"`
	Token  int64  `col:"token"`
	LookAt int64  `col:"look_at"`
}

// uniqueNow reports whether the task of a row keeps others out.
func (t *tx) uniqueNow(u uniqueTask, now int64) bool {
	row, open := t.tasks.rows[u.TaskID]
	switch jobs.UniqueWhile(u.While) {
	case jobs.WhileOpen:
		return open || u.Until > now
	case jobs.WhilePending:
		return open && row.State != Running && row.Token <= u.Token || u.Until > now
	}
	return u.Until > now
}

// takeUnique reports whether a task met another one with its values. If it did not, and it is unique, it has the row from now on.
func (t *tx) takeUnique(p *newTask, at time.Time) (met bool, err error) {
	if p.Unique == nil {
		return false, nil
	}
	u, now := p.Unique.WithDefaults(), micros(at)
	sum := sha256.Sum256(p.UniqueValues(p.payload))
	row := uniqueTask{Pool: p.Pool, Values: hex.EncodeToString(sum[:]), TaskID: p.own, While: string(u.While), LookAt: now}
	if u.For > 0 {
		row.Until = micros(at.Add(u.For))
		row.LookAt = row.Until
	}
	was, exists := t.unique.rows[poolKey{row.Pool, row.Values}]
	if !exists || !t.uniqueNow(was, now) {
		put(t, &t.unique, row)
		return false, nil
	}
	if u.OnConflict == jobs.ConflictRejects {
		return true, fmt.Errorf("task %s, of pool %q or of the list, with the same %s exists: %w", was.TaskID, p.Pool, strings.Join(u.By, ", "), jobs.ErrConflict)
	}
	p.id, p.existed = was.TaskID, true
	if p.IdempotencyKey != "" {
		put(t, &t.keys, idempotency{p.Pool, p.IdempotencyKey, was.TaskID, p.body, now})
	}
	if task, open := t.tasks.rows[was.TaskID]; open && task.State != Running && u.OnConflict == jobs.ConflictReplaces {
		return true, t.replace(p, task, now)
	}
	return true, nil
}

// replace changes a pending task, as UpdateTask does.
func (t *tx) replace(p *newTask, row Task, now int64) error {
	if row.Kind != p.Kind || row.TaskKey != p.Key {
		return fmt.Errorf("task %s, of the pool or of the list, has kind %q and key %q, which a replacement does not change: %w", row.ID, row.Kind, row.TaskKey, jobs.ErrConflict)
	}
	if row.State == Locked {
		t.forgetWaits(row.ID)
	}
	if row.ReasonCode == reason.WaitsForLock || row.waitsForKey() {
		row.Reason, row.ReasonCode = "", ""
	}
	row.RunAt, row.State = max(micros(p.RunAt), now), Ready
	if row.RunAt > now {
		row.State = Waits
	}
	row.Rank, row.Payload, row.Tags, row.ExpiresAt = -p.Priority, p.payload, encodeTags(p.Tags), micros(p.ExpiresAt)
	t.changeUnique(row.ID, row.Token)
	row.Token++
	put(t, &t.tasks, row)
	return nil
}

// changeUnique follows a change of a task that was not claimed.
func (t *tx) changeUnique(id string, token int64) {
	for _, u := range t.unique.rows {
		if u.TaskID == id && u.Token == token {
			u.Token++
			put(t, &t.unique, u)
			return
		}
	}
}
