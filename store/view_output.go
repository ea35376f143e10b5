package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Output returns what an attempt of a task wrote, as far as it is kept: it is stored when the attempt ends, cut by
// scheduler.Options.OutputLimit, until the retention of outputs has passed. Attempts count from 1; attempt 0 is the last one
// that has an output. jobs.ErrNotFound if nothing is kept, or there is no such task.
func (s *Store) Output(ctx context.Context, id string, attempt int) ([]byte, error) {
	return get(ctx, s.view, "output", func(t *tx) (output []byte, _ error) {
		text, args := `SELECT output FROM {outputs} WHERE task_id = ?`, []any{id}
		if attempt != 0 {
			text, args = text+` AND attempt = ?`, append(args, attempt)
		}
		found, err := t.One(text+` ORDER BY attempt DESC LIMIT 1`, args, &output)
		if err == nil && !found {
			err = fmt.Errorf("output of task %.64q, attempt %d: %w", id, attempt, jobs.ErrNotFound)
		}
		return output, err
	})
}
