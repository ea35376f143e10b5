package memstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// newTask is a task on its way into a pool.
type newTask struct {
	jobs.NewTask
	own     string // the id it has, if it is new
	id      string // of the task that it became
	payload json.RawMessage
	body    string // hash of kind and payload
	existed bool
}

func (s *Store) makeTask(n jobs.NewTask) (*newTask, error) {
	payload, err := n.Encode()
	if err != nil {
		return nil, err
	}
	id, err := s.newID()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(n.Kind+"\n"), payload...))
	return &newTask{NewTask: n, own: id, payload: payload, body: hex.EncodeToString(sum[:])}, nil
}

// Enqueue adds tasks to pools, all or none; the answer has their order. Errors: jobs.ErrInvalid,
// jobs.ErrNotFound, jobs.ErrConflict for an idempotency key with another body.
func (s *Store) Enqueue(ctx context.Context, tasks ...jobs.NewTask) (all []jobs.Enqueued, err error) {
	var batch []*newTask
	for i, n := range tasks {
		p, err := s.makeTask(n)
		if err == nil && n.Pool == naming.NotificationsPool {
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
		all = make([]jobs.Enqueued, len(batch))
		for i, p := range batch {
			task := t.done.rows[p.id].task()
			if row, open := t.tasks.rows[p.id]; open {
				task = row.task()
			}
			all[i] = jobs.Enqueued{Task: task, Existed: p.existed}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (t *tx) enqueue(batch []*newTask) error {
	now := t.now()
	for i, p := range batch {
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
		if ledger.Expired(jobs.Task{ExpiresAt: p.ExpiresAt.Truncate(time.Microsecond)}, now) {
			return &jobs.FieldError{Path: expiresOf(i, len(batch)), Problem: "must be later than now"}
		}
		if err := t.runnable(i, p.NewTask); err != nil {
			return err
		}
		if met, err := t.takeUnique(p, now); met || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		row := Task{
			ID: p.id, Pool: p.Pool, Kind: p.Kind, TaskKey: p.NewTask.Key, Rank: -p.Priority, RunAt: micros(p.RunAt), ExpiresAt: micros(p.ExpiresAt), MaxAttempts: cmp.Or(p.MaxAttempts, pool.MaxAttempts),
			OwnAttempts: p.MaxAttempts, OwnTimeout: p.Timeout.Microseconds(), OwnBackoff: p.Backoff.Microseconds(),
			OnLost: pool.OnLost, LostLimit: pool.LostLimit, Key: p.IdempotencyKey, Payload: p.payload, Tags: encodeTags(p.Tags), CreatedAt: micros(now), By: p.By,
		}
		if p.RunAt.IsZero() {
			row.RunAt = micros(now)
		}
		if row.RunAt > micros(now) {
			row.State = Waits
		}
		put(t, &t.tasks, row)
		t.place(row)
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
		return fmt.Errorf("pool %q: %w: no replica has loaded any pools yet; start one first, or declare the pool with Store.AddPools", name, jobs.ErrNotFound)
	}
	why, newest := "no replica has loaded a configuration with it", Session{}
	if _, retired := t.pools.rows[name]; retired {
		why = "the configuration that was loaded last does not have it"
		for _, s := range t.sorted() {
			if !s.Dead && s.Pool == "" && (newest.Replica == "" || s.Config > newest.Config) {
				newest = s
			}
		}
	}
	if newest.Replica != "" {
		why = fmt.Sprintf("the configuration that governs, that of replica %q, does not have it, whatever other replicas have loaded", newest.Replica)
	}
	return fmt.Errorf("pool %q: %w: %s; known are %s", name, jobs.ErrNotFound, why, strings.Join(known, ", "))
}
