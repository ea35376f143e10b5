package store

import (
	"time"

	"github.com/google/uuid"
)

// eventError is how much of an error an event keeps, in bytes: the task has all of it.
const eventError = 4096

// keepEvents writes events down in the transaction that made them. Their ids sort by time.
func (t *tx) keepEvents(now time.Time, events []happening) error {
	rows := make([][]any, len(events))
	for i, h := range events {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		rows[i] = []any{
			id.String(), string(h.event), h.job, h.pool, micros(h.at), h.seq, micros(h.until), h.count, h.task, h.attempt,
			h.replica, clip(h.reason, 512), clip(h.failure, eventError), micros(now),
		}
	}
	_, err := t.insert(`INSERT INTO {events} (id, event, job, pool, trigger_at, trigger_seq, until_at, due_count, task_id, attempt,
		replica, reason, error, happened_at)`, "", rows)
	return err
}
