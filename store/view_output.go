package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Output returns what an attempt wrote, as far as it was kept; attempt 0 is the last one that has
// an output. jobs.ErrNotFound if nothing is kept.
func (s *Store) Output(ctx context.Context, id string, attempt int) ([]byte, error) {
	var output []byte
	err := s.view(ctx, "output", func(t *tx) error {
		q := table[outputModel](t).Where("task_id = ?", id)
		if attempt > 0 {
			q = q.Where("attempt = ?", attempt)
		}
		var last [][]byte
		if err := q.Order("attempt DESC").Limit(1).Pluck("output", &last).Error; err != nil {
			return err
		}
		if len(last) == 0 {
			return fmt.Errorf("output of task %.64q, attempt %d: %w", id, attempt, jobs.ErrNotFound)
		}
		output = last[0]
		return nil
	})
	return output, err
}
