package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TaskRow implements ledger.Tasks.
func (s *Store) TaskRow(ctx context.Context, id string) (jobs.Task, error) {
	task, _, err := s.Task(ctx, id)
	return task, err
}

// Result is that of store.Store.
func (s *Store) Result(ctx context.Context, id string) (result []byte, err error) {
	err = s.tx(ctx, "result", func(t *tx) error {
		result = t.results.rows[id].Result
		return nil
	})
	return result, err
}

// Task returns a task with its earlier attempts.
func (s *Store) Task(ctx context.Context, id string) (task jobs.Task, attempts []jobs.Attempt, err error) {
	err = s.tx(ctx, "task", func(t *tx) error {
		row, open := t.tasks.rows[id]
		ended, done := t.done.rows[id]
		switch {
		case open:
			task = row.task()
		case done:
			task = ended.task()
		default:
			return fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
		}
		for _, a := range t.attempts.rows {
			if a.TaskID == id {
				attempts = append(attempts, jobs.Attempt{
					Attempt: a.Attempt, State: jobs.State(a.State), Reason: a.Reason, ReasonCode: a.ReasonCode, Token: a.Token, Replica: a.Replica,
					StartedAt: fromMicros(a.StartedAt), FinishedAt: fromMicros(a.FinishedAt), ExitCode: a.ExitCode, Error: a.Error,
				})
			}
		}
		return nil
	})
	slices.SortFunc(attempts, func(a, b jobs.Attempt) int { return a.Attempt - b.Attempt })
	return task, attempts, err
}
