package memstore

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Cancel ends a pending task as cancelled, and leaves word for the owner of a running one. Errors:
// jobs.ErrNotFound, jobs.ErrConflict if it has ended.
func (s *Store) Cancel(ctx context.Context, id, by string) (task jobs.Task, err error) {
	why := "cancelled"
	if by != "" {
		why += " by " + by
	}
	err = s.tx(ctx, "cancel task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		switch {
		case !open:
			return t.notOpen(id)
		case row.State == Running:
			task = row.task()
			if row.Cancel == "" {
				row.Cancel = why
				put(t, &t.tasks, row)
			}
			return nil
		}
		now := t.now()
		var end *happening
		task, end = t.move(now, move{row: row, to: toDone, end: jobs.StateCancelled, reason: why, code: reason.Cancelled, failure: row.Error, exit: row.ExitCode})
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
