package memstore

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
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
			if err := t.retriable(row); err != nil {
				return err
			}
		}
		task = t.retry(row, fresh, by).task()
		return nil
	})
	return task, err
}
