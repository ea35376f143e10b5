package store

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// eventError is how much of an error an event keeps, in bytes: its task has more, limits.Error.
const eventError = 4096

// keepEvents writes events in the transaction that made them. Their ids sort by time.
func (t *tx) keepEvents(now time.Time, events []happening) error {
	rows := make([][]any, len(events))
	for i, h := range events {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		rows[i] = []any{
			id.String(), string(h.event), h.job, h.pool, micros(h.at), h.seq, micros(h.until), h.count, h.task, h.attempt,
			h.replica, clip.Text(h.reason, 512), string(h.code), clip.Text(h.failure, eventError), micros(now),
		}
	}
	_, err := t.Insert(`{events} (id, event, job, pool, trigger_at, trigger_seq, until_at, due_count, task_id, attempt, replica, reason, reason_code, error, happened_at)`, rows)
	return err
}

// events reads up to limit events after an id, in order.
//
// Index: primary key.
func (t *tx) events(after string, limit int) ([]ledger.Event, error) {
	return list(rowsOf(table[eventModel](t).Where("id > ?", after).Order("id").Limit(limit)), (*eventModel).event)
}

// fillHashes fills in the hashes of the current definitions of the jobs and pools of events.
//
// Index: primary keys of jobs and pools.
func (t *tx) fillHashes(events []ledger.Event) error {
	for table, name := range map[string]func(e ledger.Event) string{
		"{jobs}": func(e ledger.Event) string { return e.Job },
		"{pools}": func(e ledger.Event) string {
			if e.Job != "" {
				return ""
			}
			return e.Pool
		},
	} {
		places := map[string][]int{}
		for i, e := range events {
			if n := name(e); n != "" {
				places[n] = append(places[n], i)
			}
		}
		names := slices.Sorted(maps.Keys(places))
		err := each(t.rows("SELECT name, hash FROM "+table+" WHERE {in name name}", sqlkit.Keys(names)), func(m *jobModel) {
			for _, i := range places[m.Name] {
				events[i].Hash = m.Hash
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
