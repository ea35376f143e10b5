package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// sequence is the key of a row of {sequences}.
type sequence struct{ pool, key string }

// placed are the new tasks that get a place: those with a key, of a pool with an order.
func placed(batch []*newTask) []*newTask {
	return those(batch, func(p *newTask) bool { return p.ordered && p.task.Key != "" && !p.existed })
}

// takePlaces gives new tasks their places: behind all tasks with their key that were enqueued before, in the order of the batch. It waits
// for other transactions that enqueue tasks with these keys, until they end: so no task becomes visible before one with a smaller place.
//
// A place is a time in microseconds where that is larger than the place before: a row that was deleted and is made anew goes on behind the
// places that it gave.
//
// Index: primary key of sequences.
func (t *tx) takePlaces(now time.Time, batch []*newTask) error {
	tasks := placed(batch)
	if len(tasks) == 0 {
		return nil
	}
	keys := mapped(tasks, func(p *newTask) sequence { return sequence{p.task.Pool, p.task.Key} })
	slices.SortFunc(keys, func(a, b sequence) int { return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.key, b.key)) })
	keys = slices.Compact(keys)
	row := func(s sequence) []any { return []any{s.pool, s.key} }
	if err := t.Upsert("{sequences} (pool, task_key)", "pool, task_key", mapped(keys, row), "pool"); err != nil { // locks them
		return err
	}
	last := map[sequence]int64{}
	for part := range slices.Chunk(keys, sqlkit.MaxRows) {
		err := each(t.rows("SELECT pool, task_key, last_place FROM {sequences}{by_key} WHERE {in name pool, name task_key}{for_update}", sqlkit.Rows(part, row)),
			func(m *sequenceModel) {
				last[sequence{m.Pool, m.TaskKey}] = m.LastPlace
			})
		if err != nil {
			return err
		}
	}
	for _, p := range tasks {
		s := sequence{p.task.Pool, p.task.Key}
		p.place = max(last[s]+1, micros(now))
		last[s] = p.place
	}
	for part := range slices.Chunk(keys, sqlkit.MaxRows) {
		_, err := t.Exec("UPDATE {each}{sequences}{by_key} SET last_place={int last} WHERE {in name pool, name task_key}",
			sqlkit.Rows(part, func(s sequence) []any { return []any{last[s], s.pool, s.key} }))
		if err != nil {
			return err
		}
	}
	return nil
}

// keepPlaces writes the places of new tasks.
func (t *tx) keepPlaces(batch []*newTask) error {
	return t.insertPlaces(mapped(placed(batch), func(p *newTask) []any {
		return []any{p.task.Pool, p.task.Key, p.place, 0, 0, p.task.ID, p.task.Kind}
	}))
}
