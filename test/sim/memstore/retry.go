package memstore

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Retry implements ledger.Tasks.
func (s *Store) Retry(ctx context.Context, id, by string, force bool) (task jobs.Task, err error) {
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
		if !force {
			if pool, known := t.pools.rows[row.Pool]; !known || pool.Hash == "" {
				return fmt.Errorf("pool %q: %w", row.Pool, jobs.ErrNotFound)
			}
			if err := t.runnable(0, jobs.NewTask{Pool: row.Pool, Kind: row.Kind}); err != nil {
				return err
			}
		}
		why := "retry of " + id
		if by != "" {
			why += " by " + by
		}
		first := row.RetryOf
		if first == "" {
			first = id
		}
		now := micros(t.now())
		again := Task{
			ID: fresh, Pool: row.Pool, Kind: row.Kind, TaskKey: row.TaskKey, Rank: row.Rank, RunAt: now, MaxAttempts: row.MaxAttempts, OwnAttempts: row.OwnAttempts, OwnTimeout: row.OwnTimeout, OwnBackoff: row.OwnBackoff, OnLost: row.OnLost, LostLimit: row.LostLimit,
			Payload: row.Payload, Tags: row.Tags, RetryOf: first, Reason: why, ReasonCode: reason.Retry, CreatedAt: now, By: by,
		}
		put(t, &t.tasks, again)
		t.place(again)
		row.RetriedAs, row.Fingerprint = fresh, ""
		put(t, &t.done, row)
		task = again.task()
		return nil
	})
	return task, err
}
