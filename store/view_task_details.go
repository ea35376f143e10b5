package store

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// detailsLooked is how many tasks a page looks at that selects them by what no index has.
const detailsLooked = 2000

// detailedIDs returns at most n ids of the filter, and the id that the next page comes after; "" behind the last one.
//
// Index: as those of lists; primary keys.
func (t *tx) detailedIDs(f wire.TaskFilter, after []string, n int) (ids []string, last string, err error) {
	for left := detailsLooked; left > 0; {
		most := min(left, paging.MaxLimit)
		page, err := t.taskIDs(f, after, most)
		if err != nil {
			return nil, "", err
		}
		end := len(page) < most
		page = page[:min(most, len(page))]
		seen, err := t.details(page)
		if err != nil {
			return nil, "", err
		}
		for _, id := range page {
			task, there := seen[id]
			if there && f.Match(task) {
				ids = append(ids, id)
			}
			if len(ids) == n {
				return ids, id, nil
			}
		}
		if end {
			return ids, "", nil
		}
		left -= len(page)
		last, after = page[len(page)-1], page[len(page)-1:]
	}
	return ids, last, nil
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
