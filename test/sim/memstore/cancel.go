package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Cancel ends a pending task as cancelled, and leaves word for the owner of a running one. Errors:
// jobs.ErrNotFound, jobs.ErrConflict if it has ended.
func (s *Store) Cancel(ctx context.Context, id, by string) (task jobs.Task, err error) {
	err = s.tx(ctx, "cancel task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		switch {
		case !open:
			return t.notOpen(id)
		case row.State == Running:
			task = row.task()
			t.cancel(t.now(), row, by)
			return nil
		}
		now := t.now()
		end := t.cancel(now, row, by)
		task = bare(t.done.rows[id].task())
		if end == nil {
			return nil
		}
		return t.happened(now, []happening{*end})
	})
	return task, err
}

// cancel ends a pending task, or leaves word for the owner of a running one, and returns what happened.
func (t *tx) cancel(now time.Time, row Task, by string) (end *happening) {
	why := "cancelled"
	if by != "" {
		why += " by " + by
	}
	if row.State == Running {
		if row.Cancel == "" {
			row.Cancel = why
			put(t, &t.tasks, row)
		}
		return nil
	}
	_, end = t.withdraw(now, row, why, reason.Cancelled)
	return end
}

// withdraw ends a pending task before its next attempt. If its last one was lost, that may run until the next one was due.
func (t *tx) withdraw(now time.Time, row Task, why string, code reason.Code) (jobs.Task, *happening) {
	m := move{row: row, to: toDone, end: jobs.StateCancelled, reason: why, code: code, failure: row.Error, exit: row.ExitCode}
	if row.Job != "" && row.State == Waits && row.ReasonCode == reason.ReplicaDied {
		m.until = row.RunAt
	}
	return t.move(now, m)
}

func (t *tx) notOpen(id string) error {
	if row, ended := t.done.rows[id]; ended {
		return fmt.Errorf("task %s has ended as %s: %w", id, row.State, jobs.ErrConflict)
	}
	return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
}
