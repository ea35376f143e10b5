package store

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// eventError is how much of an error an event keeps, in bytes: its task has more, limits.Error.
const eventError = 4096

// happenedAt is when e happened: an end when the attempt ended, all else when its transaction began.
func happenedAt(e ledger.Event, now time.Time) time.Time {
	if e.At.IsZero() {
		return now
	}
	return e.At
}

// keepEvents writes events in the transaction that made them. Their ids sort by when they were written.
func (t *tx) keepEvents(now time.Time, events []ledger.Event) error {
	rows := sqlkit.Rows(events, func(e ledger.Event) []any {
		return []any{
			newID(), string(e.Event), e.Job, e.Pool, micros(e.ScheduledAt), e.Seq, micros(e.Until), e.Count, e.TaskID, e.Attempt,
			e.Replica, clip.Text(e.Reason, 512), string(e.ReasonCode), clip.Text(e.Error, eventError), micros(happenedAt(e, now)),
		}
	})
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
	places := map[subject][]int{}
	for i, e := range events {
		places[subjectOf(e)] = append(places[subjectOf(e)], i)
	}
	for kind, table := range map[string]string{"job": "{jobs}", "pool": "{pools}"} {
		var names []string
		for of := range places {
			if of.kind == kind {
				names = append(names, of.name)
			}
		}
		slices.Sort(names)
		err := each(t.rows("SELECT name, hash FROM "+table+" WHERE {in name name}", sqlkit.Keys(names)), func(m *jobModel) {
			for _, i := range places[subject{kind, m.Name}] {
				events[i].Hash = m.Hash
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
