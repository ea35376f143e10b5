package memstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// parcel is a task on its way into a pool.
type parcel struct {
	jobs.NewTask
	own     string // the id it has, if it is new
	id      string // of the task that it became
	payload json.RawMessage
	body    string // hash of kind and payload
	existed bool
}

func (s *Store) newParcel(n jobs.NewTask) (*parcel, error) {
	if n.Pool != "" && !jobs.NamePattern.MatchString(n.Pool) {
		return nil, fmt.Errorf("pool %.64q: %w", n.Pool, jobs.ErrNotFound)
	}
	payload, err := n.Encode()
	if err != nil {
		return nil, err
	}
	id, err := s.newID()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(n.Kind+"\n"), payload...))
	return &parcel{NewTask: n, own: id, payload: payload, body: hex.EncodeToString(sum[:])}, nil
}

// Enqueue adds tasks to pools, all or none; the answer has their order. Errors: jobs.ErrInvalid,
// jobs.ErrNotFound, jobs.ErrConflict for an idempotency key with another body.
func (s *Store) Enqueue(ctx context.Context, tasks ...jobs.NewTask) (all []ledger.Enqueued, err error) {
	var batch []*parcel
	for i, n := range tasks {
		p, err := s.newParcel(n)
		if err == nil && n.Pool == jobs.NotificationsPool {
			err = &jobs.FieldError{Path: "pool", Problem: "notifications is for what the configuration wants to be told"}
		}
		if err != nil && len(tasks) > 1 {
			err = fmt.Errorf("task %d of the list: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		batch = append(batch, p)
	}
	err = s.tx(ctx, "enqueue", func(t *tx) error {
		if err := t.enqueue(batch); err != nil {
			return err
		}
		all = make([]ledger.Enqueued, len(batch))
		for i, p := range batch {
			task := t.done.rows[p.id].task()
			if row, open := t.tasks.rows[p.id]; open {
				task = row.task()
			}
			all[i] = ledger.Enqueued{Task: task, Existed: p.existed}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (t *tx) enqueue(batch []*parcel) error {
	now := t.now()
	for _, p := range batch {
		pool := t.pools.rows[p.Pool]
		if pool.Hash == "" {
			return t.unknownPool(p.Pool)
		}
		p.id, p.existed = p.own, false
		if p.IdempotencyKey != "" && !add(t, &t.keys, idempotency{p.Pool, p.IdempotencyKey, p.own, p.body, micros(now)}) {
			first := t.keys.rows[poolKey{p.Pool, p.IdempotencyKey}]
			if first.Body != p.body {
				return fmt.Errorf("idempotency key %q of pool %q was used before with another kind or payload: %w", p.IdempotencyKey, p.Pool, jobs.ErrConflict)
			}
			p.id, p.existed = first.TaskID, true
			continue
		}
		row := Task{
			ID: p.id, Pool: p.Pool, Kind: p.Kind, Rank: -p.Priority, RunAt: micros(p.RunAt), MaxAttempts: pool.MaxAttempts,
			OnLost: pool.OnLost, Key: p.IdempotencyKey, Payload: p.payload, Tags: encodeTags(p.Tags), CreatedAt: micros(now),
		}
		if p.RunAt.IsZero() {
			row.RunAt = micros(now)
		}
		if row.RunAt > micros(now) {
			row.State = Waits
		}
		put(t, &t.tasks, row)
	}
	return nil
}

func encodeTags(tags []string) []byte {
	if len(tags) == 0 {
		return []byte{}
	}
	text, _ := json.Marshal(tags) // strings always encode
	return text
}

func (t *tx) unknownPool(name string) error {
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(t.pools.rows)), func(name string) bool { return t.pools.rows[name].Hash == "" })
	if len(known) == 0 {
		return fmt.Errorf("pool %q: %w: no replica has loaded any pools yet", name, jobs.ErrNotFound)
	}
	return fmt.Errorf("pool %q: %w: known are %s", name, jobs.ErrNotFound, strings.Join(known, ", "))
}

// CancelTask ends a pending task as cancelled, and leaves word for the owner of a running one. Errors:
// jobs.ErrNotFound, jobs.ErrConflict if it has ended.
func (s *Store) CancelTask(ctx context.Context, id, by string) (task jobs.Task, err error) {
	reason := "cancelled"
	if by != "" {
		reason += " by " + by
	}
	err = s.tx(ctx, "cancel task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		switch {
		case !open:
			return t.notOpen(id)
		case row.State == Running:
			task = row.task()
			if row.Cancel == "" {
				row.Cancel = reason
				put(t, &t.tasks, row)
			}
			return nil
		}
		now := t.now()
		var end *happening
		task, end = t.move(now, move{row: row, to: toDone, end: jobs.StateCancelled, reason: reason, failure: row.Error, exit: row.ExitCode})
		if end == nil {
			return nil
		}
		return t.happened(now, []happening{*end})
	})
	return task, err
}

func (t *tx) notOpen(id string) error {
	if row, ended := t.done.rows[id]; ended {
		return fmt.Errorf("task %s has ended as %s: %w", id, row.State, jobs.ErrConflict)
	}
	return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
}

// RetryTask implements scheduler.Tasks.
func (s *Store) RetryTask(ctx context.Context, id, by string) (task jobs.Task, err error) {
	fresh, err := s.newID()
	if err != nil {
		return task, err
	}
	err = s.tx(ctx, "retry task", func(t *tx) error {
		row, ended := t.done.rows[id]
		switch _, open := t.tasks.rows[id]; {
		case open:
			return fmt.Errorf("task %s has not ended: %w", id, jobs.ErrConflict)
		case !ended:
			return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
		case row.Job != "":
			return fmt.Errorf("task %s belongs to job %s: %w", id, row.Job, jobs.ErrConflict)
		}
		reason := "retry of " + id
		if by != "" {
			reason += " by " + by
		}
		first := row.RetryOf
		if first == "" {
			first = id
		}
		now := micros(t.now())
		again := Task{
			ID: fresh, Pool: row.Pool, Kind: row.Kind, Rank: row.Rank, RunAt: now, MaxAttempts: row.MaxAttempts, OnLost: row.OnLost,
			Payload: row.Payload, Tags: row.Tags, RetryOf: first, Reason: reason, CreatedAt: now,
		}
		put(t, &t.tasks, again)
		task = again.task()
		return nil
	})
	return task, err
}

// Task implements scheduler.Tasks.
func (s *Store) Task(ctx context.Context, id string) (task jobs.Task, attempts []jobs.Attempt, err error) {
	err = s.tx(ctx, "task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		ended, done := t.done.rows[id]
		switch {
		case open:
			task = row.task()
		case done:
			task = ended.task()
		default:
			return fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
		}
		for _, a := range t.attempts.rows {
			if a.TaskID == id {
				attempts = append(attempts, jobs.Attempt{
					Attempt: a.Attempt, State: jobs.State(a.State), Reason: a.Reason, Token: a.Token, Replica: a.Replica,
					StartedAt: fromMicros(a.StartedAt), FinishedAt: fromMicros(a.FinishedAt), ExitCode: a.ExitCode, Error: a.Error,
				})
			}
		}
		return nil
	})
	slices.SortFunc(attempts, func(a, b jobs.Attempt) int { return a.Attempt - b.Attempt })
	return task, attempts, err
}

// deadSessionsFor is how long the row of a dead session stays.
const deadSessionsFor = time.Hour

// Sweep implements scheduler.Tasks.
func (s *Store) Sweep(ctx context.Context, r ledger.Retention, limit int) (more bool, err error) {
	err = s.tx(ctx, "sweep", func(t *tx) error {
		now := t.now()
		old := func(at int64, age time.Duration) bool { return age > 0 && at < micros(now.Add(-age)) }
		swept := map[string]int{}
		room := func(kind string) bool {
			if swept[kind] == limit {
				return false
			}
			swept[kind]++
			more = more || swept[kind] == limit
			return true
		}
		var ended []happening
		for _, row := range t.tasks.rows {
			if row.Job != "" && t.jobs.rows[row.Job].Hash == "" && row.State != Running && room("retired") {
				_, h := t.move(now, move{row: row, to: toDone, end: jobs.StateCancelled, reason: ledger.ReasonRetired, failure: row.Error, exit: row.ExitCode})
				if h != nil {
					ended = append(ended, *h)
				}
			}
		}
		if err := t.happened(now, ended); err != nil {
			return err
		}
		for k, g := range t.triggers.rows {
			if g.Outcome != "" && old(g.At, r.Triggers) && old(g.Until, r.Triggers) && old(g.DecidedAt, r.Triggers) && old(g.FinishedAt, r.Triggers) && room("trigger") {
				remove(t, &t.triggers, k)
			}
		}
		for id, d := range t.done.rows {
			age := r.Failed
			if d.State == string(jobs.StateSucceeded) {
				age = r.Succeeded
			}
			if old(d.FinishedAt, age) && room(d.State) {
				t.forget(id)
			}
		}
		for k, o := range t.outputs.rows {
			if old(o.CreatedAt, r.Output) && room("output") {
				remove(t, &t.outputs, k)
			}
		}
		busy := map[string]bool{}
		for _, task := range t.tasks.rows {
			busy[task.Session] = busy[task.Session] || task.State == Running
		}
		for id, row := range t.sessions.rows {
			if row.Dead && !busy[id] && old(row.SeenAt, deadSessionsFor) && room("session") {
				remove(t, &t.sessions, id)
			}
		}
		return nil
	})
	return more, err
}

// forget deletes an ended task with all that belongs to it.
func (t *tx) forget(id string) {
	remove(t, &t.done, id)
	for k := range t.attempts.rows {
		if k.TaskID == id {
			remove(t, &t.attempts, k)
		}
	}
	for k := range t.outputs.rows {
		if k.TaskID == id {
			remove(t, &t.outputs, k)
		}
	}
	for k, row := range t.keys.rows {
		if row.TaskID == id {
			remove(t, &t.keys, k)
		}
	}
}
