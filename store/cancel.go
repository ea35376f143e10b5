package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Cancel ends a pending task as cancelled at once. For a running one it requests the cancellation from the owner, which
// sees the request in Own, and returns the task as it is. Such a task is not attempted again.
//
// by names the origin of the request, for display; it may be empty. Errors: jobs.ErrNotFound, jobs.ErrConflict if the
// task has ended, jobs.ErrUnavailable.
func (s *Store) Cancel(ctx context.Context, id, by string) (jobs.Task, error) {
	why := cancelledBy(by)
	var task jobs.Task
	write := func(t *tx) error {
		rows, err := t.openTasks(taskColumns, " WHERE id=?", id)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			ended, found, err := t.endedTask(id)
			switch {
			case err != nil:
				return err
			case !found:
				return fmt.Errorf("task %s: %w", id, jobs.ErrNotFound)
			case t.Again && ended.State == jobs.StateCancelled && ended.Reason == why: // by the COMMIT whose answer was lost
				task = ended
				return nil
			}
			return fmt.Errorf("task %s has ended as %s: %w", id, ended.State, jobs.ErrConflict)
		}
		row := rows[0]
		task = row.Task
		if row.row == rowRunning {
			return t.askOwners(rows, func(openTask) string { return why })
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		m := cancelled(row, why)
		task = m.task(now)
		return t.endPending(now, []move{m})
	}
	err := s.settle(ctx, "cancel task", write, nil)
	return task, err
}

// cancelledBy is the reason of a cancellation, which by may name nobody for.
func cancelledBy(by string) string {
	if by == "" {
		return "cancelled"
	}
	return clip.Text("cancelled by "+by, 255)
}

// cancelled is the move of a pending task that is cancelled.
func cancelled(row openTask, why string) move {
	return withdrawn(row, why, reason.Cancelled)
}

// withdrawn is the move of a pending task that ends before its next attempt. If its last one was lost, that may run until the next one was due.
func withdrawn(row openTask, why string, code reason.Code) move {
	m := move{openTask: row, to: toDone, end: jobs.StateCancelled, reason: why, code: code, failure: row.Error, exit: row.ExitCode}
	if row.Job != "" && row.row == rowWaits && row.ReasonCode == reason.ReplicaDied {
		m.until = row.RunAt
	}
	return m
}

// askOwners writes the request into the rows of running tasks, where their owners read it. The first request is kept.
//
// Index: primary key.
func (t *tx) askOwners(rows []openTask, why func(openTask) string) error {
	rows = those(rows, func(r openTask) bool { return r.cancel == "" })
	n, err := t.Exec("UPDATE {each}{tasks}{by_key} SET cancel={text why} WHERE state+0=2 AND {in name id, int token}",
		sqlkit.Rows(rows, func(r openTask) []any { return []any{why(r), r.ID, r.Token} }))
	if err == nil && n != int64(len(rows)) {
		return sqlkit.ErrMoved
	}
	return err
}

// endedTask reads a row of {done}, without its payload.
func (t *tx) endedTask(id string) (task jobs.Task, found bool, err error) {
	err = each(t.rows("SELECT "+doneFacts+" FROM {done} WHERE id=?", id), func(m *doneModel) { task, found = m.Task.task(), true })
	return task, found, err
}
