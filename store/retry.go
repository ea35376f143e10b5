package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Retry enqueues an ended task again, as a new one that is due now and names the first of the
// chain in RetryOf. The tasks of jobs are not retried here: a job's row decides whether it may run.
//
// by names the origin of the request, for display; it may be empty. What Enqueue would refuse because no replica can run it is
// refused here as well, unless force: a *jobs.KindError, or jobs.ErrNotFound for a pool that no configuration has.
//
// Errors: those; jobs.ErrNotFound; jobs.ErrConflict if the task has not ended or is a job's; jobs.ErrUnavailable.
func (s *Store) Retry(ctx context.Context, id, by string, force bool) (jobs.Task, error) {
	fresh := newID()
	var task jobs.Task
	write := func(t *tx) error {
		ended, found, err := t.endedTask(id)
		if err != nil {
			return err
		}
		if !found {
			return unended(t, id)
		}
		if ended.Job != "" {
			return fmt.Errorf("task %s belongs to job %s: %w", id, ended.Job, jobs.ErrConflict)
		}
		if !force {
			if err := t.refuseRetry(ended); err != nil {
				return err
			}
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		n, err := t.markRetried(sqlkit.Many{{fresh, ended.ID, ended.RetriedAs}})
		if err == nil && n != 1 {
			err = sqlkit.ErrMoved // another retry has marked it, or it was swept
		}
		if err == nil {
			err = t.retryTasks(now, by, []openTask{{Task: ended}}, map[string]string{id: fresh})
		}
		if err != nil {
			return err
		}
		rows, err := t.openTasks(taskColumns, " WHERE id=?", fresh)
		if err == nil && len(rows) == 0 {
			err = sqlkit.ErrMoved // swept in between
		}
		if err == nil {
			task = rows[0].Task
		}
		return err
	}
	// It may have been claimed, and have ended, before its COMMIT is settled.
	err := s.settle(ctx, "retry task", write, func(t *tx) (bool, error) { return t.kept(fresh) })
	if err == nil {
		s.listening.tell(task.Pool)
	}
	return task, err
}

// refuseRetry refuses a task that neither the configuration that governs its pool nor any live replica can run.
func (t *tx) refuseRetry(ended jobs.Task) error {
	one := []*newTask{{task: ended}}
	governing, _, err := t.fillPools(one)
	if errors.Is(err, jobs.ErrNotFound) {
		return fmt.Errorf("%w; if replicas that have it follow, use force", err)
	}
	if err != nil {
		return err
	}
	return t.refuseUnrunnable(one, governing)
}

// retryTasks adds copies of ended tasks that are due now, under the ids of fresh, and gives them their places, if their pools have an order
// of the tasks with one key. The places are taken before the tasks are added, in the order of locks.
//
// Index: primary key of pools.
func (t *tx) retryTasks(now time.Time, by string, ended []openTask, fresh map[string]string) error {
	var batch []*newTask
	if keyed := those(ended, func(r openTask) bool { return r.Key != "" }); len(keyed) > 0 {
		rows, err := defined[poolModel](t, sqlkit.Distinct(mapped(keyed, func(r openTask) string { return r.Pool })), "")
		if err != nil {
			return err
		}
		batch = mapped(keyed, func(r openTask) *newTask {
			p := &newTask{task: r.Task, ordered: rows[r.Pool].KeyOrder != ""}
			p.task.ID = fresh[r.ID]
			return p
		})
	}
	if err := t.takePlaces(now, batch); err != nil {
		return err
	}
	if err := t.insertRetries(now, by, ended, fresh); err != nil {
		return err
	}
	return t.keepPlaces(batch)
}

// unended is why a task that is not in {done} cannot be retried.
func unended(t *tx, id string) error {
	open, err := t.One("SELECT id FROM {tasks} WHERE id=?", []any{id}, new(string))
	switch {
	case err != nil:
		return err
	case open:
		return fmt.Errorf("task %s has not ended: %w", id, jobs.ErrConflict)
	}
	return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
}
