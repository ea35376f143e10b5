package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// ChangeTasks does an action with a batch of the tasks that match, the latest id first.
func (s *Store) ChangeTasks(ctx context.Context, action wire.BulkAction, b wire.Bulk) (out wire.BulkResult, err error) {
	if err := b.Check(action); err != nil {
		return out, err
	}
	limit, err := paging.Limit(b.Limit)
	if err != nil {
		return out, err
	}
	after, err := paging.ReadCursor(b.Cursor, "bulk", 1)
	if err != nil {
		return out, err
	}
	if b.IDs != nil {
		limit = len(b.IDs)
	}
	fresh := map[string]string{} // the transaction may run twice
	err = s.tx(ctx, string(action)+" tasks", func(t *tx) error {
		out = wire.BulkResult{Tasks: []wire.BulkTask{}}
		now := t.now()
		var ends []happening
		ids := slices.Sorted(maps.Keys(t.done.rows))
		if action == wire.BulkCancel {
			ids = slices.Sorted(maps.Keys(t.tasks.rows))
		}
		for _, id := range slices.Backward(ids) {
			row, done := t.tasks.rows[id], t.done.rows[id]
			task := bare(done.task())
			if action == wire.BulkCancel {
				task = bare(row.task())
			}
			if after != nil && id >= after[0] || !b.Matches(action, task) {
				continue
			}
			if out.Matched == limit {
				break
			}
			out.Matched++
			if out.Matched == limit && b.IDs == nil {
				out.Next = paging.Cursor("bulk", id)
			}
			why := wire.BulkReason(action, task)
			switch {
			case why != "":
			case action == wire.BulkCancel && row.Cancel != "":
				why = "was asked to stop before"
			case action == wire.BulkPurge && task.State == jobs.StateLost && done.MayRunUntil > micros(now):
				why = "may still run, although it was lost"
			case action == wire.BulkRetry && !b.Force:
				if err := t.retriable(done); err != nil {
					why = err.Error()
				}
			}
			if why != "" {
				out.Skip(id, why)
				continue
			}
			out.Done++
			one := wire.BulkTask{ID: id, Kind: task.Kind, State: task.State}
			if !b.DryRun {
				switch action {
				case wire.BulkRetry:
					if fresh[id] == "" {
						if fresh[id], err = s.newID(); err != nil {
							return err
						}
					}
					one.As = fresh[id]
				case wire.BulkCancel:
					if end := t.cancel(now, row, b.By); end != nil {
						ends = append(ends, *end)
					}
				default:
					t.forget(id)
				}
			}
			if one.Error = task.Error; !b.DryRun {
				one.Error = ""
			}
			if !b.DryRun || len(out.Tasks) < 10 {
				out.Tasks = append(out.Tasks, one)
			}
		}
		for _, one := range slices.Backward(out.Tasks) {
			if one.As != "" {
				t.retry(t.done.rows[one.ID], one.As, b.By)
			}
		}
		return t.happened(now, ends)
	})
	return out, err
}

// retriable is why no replica can run an ended task again.
func (t *tx) retriable(row Done) error {
	if pool, known := t.pools.rows[row.Pool]; !known || pool.Hash == "" {
		return fmt.Errorf("pool %q: %w", row.Pool, jobs.ErrNotFound)
	}
	return t.runnable(0, jobs.NewTask{Pool: row.Pool, Kind: row.Kind})
}

// retry adds a copy of an ended task that is due now.
func (t *tx) retry(row Done, fresh, by string) Task {
	why := "retry of " + row.ID
	if by != "" {
		why += " by " + by
	}
	now := micros(t.now())
	again := Task{
		ID: fresh, Pool: row.Pool, Kind: row.Kind, TaskKey: row.TaskKey, Rank: row.Rank, RunAt: now, MaxAttempts: row.MaxAttempts, OwnAttempts: row.OwnAttempts, OwnTimeout: row.OwnTimeout, OwnBackoff: row.OwnBackoff, OnLost: row.OnLost, LostLimit: row.LostLimit,
		Payload: row.Payload, Tags: row.Tags, RetryOf: cmp.Or(row.RetryOf, row.ID), Reason: why, ReasonCode: reason.Retry, CreatedAt: now, By: by,
	}
	put(t, &t.tasks, again)
	t.place(again)
	row.RetriedAs, row.Fingerprint = fresh, ""
	put(t, &t.done, row)
	return again
}
