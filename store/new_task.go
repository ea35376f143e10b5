package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// newTask is a task that is being enqueued.
type newTask struct {
	task    jobs.Task
	own     string // the id it has, if it is new
	key     string // idempotency key, as the user gave it
	body    string // hash of kind and payload
	runAt   time.Time
	ordered bool     // its pool has an order of the tasks with one key
	place   int64    // in that order
	force   bool     // it may be one that no replica can run
	first   *newTask // an earlier one of the same batch with the same key
	existed bool

	given    *jobs.Task  // the task as it was before a later one of the batch replaced it; nil: none has
	values   string      // hash of what it is compared by; "": it is not unique
	unique   jobs.Unique // if it is, with its defaults
	added    bool        // its idempotency key is new, and stands for the task that it met
	replaced *openTask   // what it made of a pending task
}

// newBatch has package jobs check the tasks, and gives them ids. The batch is in the order of the ids.
func newBatch(tasks []jobs.NewTask) ([]*newTask, error) {
	batch := make([]*newTask, len(tasks))
	keys := map[[2]string]*newTask{}
	for i, n := range tasks {
		p, err := makeTask(n)
		if err == nil && n.Pool == naming.NotificationsPool {
			err = &jobs.FieldError{Path: "pool", Problem: "notifications is for what the configuration wants to be told; use another pool"}
		}
		if err != nil {
			if len(tasks) > 1 {
				err = fmt.Errorf("task %d of the list: %w", i+1, err)
			}
			return nil, err
		}
		if p.key != "" {
			k := [2]string{n.Pool, p.key}
			if p.first = keys[k]; p.first == nil {
				keys[k] = p
			} else if p.first.body != p.body {
				return nil, fmt.Errorf("idempotency key %q of pool %q stands twice in the list, with another kind or payload: %w", p.key, n.Pool, jobs.ErrConflict)
			}
		}
		batch[i] = p
	}
	return batch, nil
}

func makeTask(n jobs.NewTask) (*newTask, error) {
	payload, err := n.Encode()
	if err != nil {
		return nil, err
	}
	id, runAt := newID(), n.RunAt.UTC().Truncate(time.Microsecond)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", n.Kind)
	sum.Write(payload)
	p := &newTask{
		task: jobs.Task{
			ID: id, Pool: n.Pool, Kind: n.Kind, Key: n.Key, State: jobs.StatePending,
			OwnAttempts: n.MaxAttempts, Timeout: ownDuration(n.Timeout.Microseconds()), Backoff: ownDuration(n.Backoff.Microseconds()),
			Priority: n.Priority, RunAt: runAt, ExpiresAt: n.ExpiresAt.UTC().Truncate(time.Microsecond), Payload: payload, PayloadSize: len(payload), Tags: n.Tags, By: n.By,
		},
		own: id, key: n.IdempotencyKey, body: hex.EncodeToString(sum.Sum(nil)), runAt: runAt, force: n.Force,
	}
	if n.Unique != nil {
		p.values, p.unique = uniqueOf(n, payload), n.Unique.WithDefaults()
	}
	return p, nil
}

// begin forgets what an earlier try made of the task.
func (p *newTask) begin() {
	if p.given != nil {
		p.task, p.runAt, p.given = *p.given, p.given.RunAt, nil
	}
	p.task.ID, p.existed, p.added, p.replaced = p.own, false, false, nil
}

// newID sorts by the time that it was made at. Package uuid reads random bytes for it, which does not fail.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
