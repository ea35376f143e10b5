package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// UpdateTask changes a pending task of a pool, and returns it as it is then. A claim at the same time either comes first, and the change is
// refused, or starts the task with the whole change. A task that waits for a retry is changed as well: with a RunAt of now it is
// retried at once. One that waits for its locks asks for them anew, unless its tags alone are changed.
//
// The task's idempotency key goes on standing for what was enqueued: an Enqueue with this key, and the kind and payload of then, returns the
// task as it is now. So does what a unique task is compared by.
//
// Errors: jobs.ErrInvalid, for a change of nothing as well; jobs.ErrNotFound; jobs.ErrConflict if the task is running, has ended or is
// a job's; jobs.ErrUnavailable.
func (s *Store) UpdateTask(ctx context.Context, id string, change wire.TaskChange) (jobs.Task, error) {
	payload, err := change.Encode()
	if err == nil && change.None() {
		err = fmt.Errorf("task %s: there is nothing to change: %w", id, jobs.ErrInvalid)
	}
	if err != nil {
		return jobs.Task{}, &opError{"update task", err}
	}
	change.Payload = payload
	var is openTask // as it was written
	err = s.settle(ctx, "update task", func(t *tx) error {
		rows, err := t.openTasks(taskColumns, " WHERE id=?", id)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].row == rowRunning || rows[0].Job != "" {
			return t.notUpdated(id, &is)
		}
		was := rows[0]
		if t.Again && wasWritten(was.Task, is.Task) {
			is = was
			return nil
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		if err := change.Fits(was.Task, now); err != nil {
			return err
		}
		is = changed(was, change, now)
		if change.MaxAttempts != nil && is.OwnAttempts == 0 {
			// Each claim writes the pool's; until then it is what people see. Index: primary key of pools.
			if _, err := t.One("SELECT max_attempts FROM {pools} WHERE name=?", []any{is.Pool}, &is.MaxAttempts); err != nil {
				return err
			}
		}
		if err := t.changeUnique(was, is); err != nil {
			return err
		}
		if _, err := t.wakeKeys(now, []move{{openTask: was}}); err != nil {
			return err
		}
		if err := t.replacePending([]replacement{{was, is}}); err != nil {
			return err
		}
		if was.row == rowKeyed && is.row != rowKeyed {
			return t.leaveKeys([]string{id})
		}
		if was.row == rowLocked && is.row != rowLocked {
			return t.forgetWaits([]string{id})
		}
		return nil
	}, nil)
	if err != nil {
		return jobs.Task{}, err
	}
	if is.row == rowReady {
		s.listening.tell(is.Pool)
	}
	return is.Task, nil
}

// changed is the row with the change.
func changed(r openTask, c wire.TaskChange, now time.Time) openTask {
	again := c.Payload != nil || c.Priority != nil || c.RunAt != nil
	if c.RunAt != nil {
		r.RunAt = c.RunAt.UTC().Truncate(time.Microsecond)
		if r.RunAt.Before(now) {
			r.RunAt = now
		}
		r.row = pendingRow(r.RunAt, now)
	}
	if (r.row == rowLocked || r.row == rowKeyed) && again { // its keys, and its place among those that wait for them, are those of before
		r.row = rowReady
	}
	if r.row != rowLocked && r.ReasonCode == reason.WaitsForLock || r.row != rowKeyed && (r.ReasonCode == reason.WaitsForKey || r.ReasonCode == reason.WaitsForKind) {
		r.Reason, r.ReasonCode = "", ""
	}
	if c.ExpiresAt != nil {
		r.ExpiresAt = c.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	if c.Priority != nil {
		r.Priority = *c.Priority
	}
	if c.Payload != nil {
		r.Payload, r.PayloadSize = c.Payload, len(c.Payload)
	}
	if c.Tags != nil {
		r.Tags = slices.Clone(*c.Tags)
	}
	if c.MaxAttempts != nil {
		r.OwnAttempts = *c.MaxAttempts
		r.MaxAttempts = cmp.Or(r.OwnAttempts, r.MaxAttempts)
	}
	if c.Timeout != nil {
		r.Timeout = ownDuration(microsOf(*c.Timeout))
	}
	if c.Backoff != nil {
		r.Backoff = ownDuration(microsOf(*c.Backoff))
	}
	r.Token++ // a claim that has read the row before takes nothing
	return r
}

// notUpdated says why a task is not changed; nil if it was, by the COMMIT whose answer was lost.
func (t *tx) notUpdated(id string, wrote *openTask) error {
	tasks, err := t.tasksByID([]string{id})
	if err != nil {
		return err
	}
	task, known := tasks[id]
	switch {
	case !known:
		return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
	case t.Again && task.Token > wrote.Token && wasWritten(task, wrote.Task):
		wrote.Task = task
		return nil
	case task.Job != "":
		return fmt.Errorf("task %s belongs to job %s, and is not changed: cancel it, and run the job with another payload: %w", id, task.Job, jobs.ErrConflict)
	case task.State == jobs.StateRunning:
		return fmt.Errorf("task %s is running on %s, and only a pending one is changed: cancel it, or wait for its end: %w", id, task.Replica, jobs.ErrConflict)
	}
	return fmt.Errorf("task %s has ended as %s, and only a pending one is changed: retry it, or enqueue another one: %w", id, task.State, jobs.ErrConflict)
}

// wasWritten reports whether a task has been what was written. One that was claimed since may have another RunAt, if it is retried.
func wasWritten(task, wrote jobs.Task) bool {
	return task.ID == wrote.ID && (task.Token > wrote.Token || task.Token == wrote.Token && task.RunAt.Equal(wrote.RunAt)) &&
		task.Priority == wrote.Priority && task.ExpiresAt.Equal(wrote.ExpiresAt) && bytes.Equal(task.Payload, wrote.Payload) && slices.Equal(task.Tags, wrote.Tags) &&
		task.OwnAttempts == wrote.OwnAttempts && task.Timeout == wrote.Timeout && task.Backoff == wrote.Backoff
}
