package store

import (
	"context"
)

// Result returns what the last attempt of an ended task made its result, as JSON, as long as the task is kept; nil if there is none, or no such
// task. See [jobs.Task.SetResult].
func (s *Store) Result(ctx context.Context, id string) ([]byte, error) {
	return get(ctx, s.view, "result", func(t *tx) (result []byte, _ error) {
		_, err := t.One(`SELECT result FROM {results} WHERE task_id = ?`, []any{id}, &result)
		return result, err
	})
}
