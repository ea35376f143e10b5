package store

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// detailedIDs returns at most n ids of the filter, and the id that the next page comes after; "" behind the last one.
//
// Index: as those of lists; primary keys.
func (t *tx) detailedIDs(f wire.TaskFilter, after []string, n int) (ids []string, last string, err error) {
	return walk(after, n, func(after []string, n int) ([]string, error) { return t.taskIDs(f, after, n) }, func(page []string) (func(id string) bool, error) {
		seen, err := t.details(page)
		return func(id string) bool { task, there := seen[id]; return there && f.Match(task) }, err
	})
}

// details reads what [wire.TaskDetails] is about. Open tasks are read first: one that ends in between is found among the ended.
//
// Index: primary keys.
func (t *tx) details(ids []string) (map[string]jobs.Task, error) {
	all := map[string]jobs.Task{}
	for _, from := range []string{
		"SELECT id, state, kind, task_key, tags, created_at FROM {tasks} WHERE {in name id}",
		"SELECT id, state, kind, task_key, tags, created_at, finished_at FROM {done} WHERE {in name id}",
	} {
		for part := range slices.Chunk(ids, sqlkit.MaxRows) {
			if err := each(t.rows(from, sqlkit.Keys(part)), func(m *taskFields) { all[m.ID] = m.task() }); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
