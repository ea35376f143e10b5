package store

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// A pool with keys has more candidates than it lets start. Of those, a payload above limits.ListedPayload is read when its task starts, but
// for tasks of jobs, whose locks may be named by it.
var laterPayload = fmt.Sprintf(", CASE WHEN t.job<>'' OR LENGTH(t.payload)<=%d THEN t.payload ELSE '' END AS payload, LENGTH(t.payload) AS payload_size",
	limits.ListedPayload)

// readPayloads reads those of the tasks that start which were left out.
//
// Index: primary key.
func (w *claim) readPayloads(t *tx) error {
	var without []string
	for _, m := range w.rows {
		if len(m.is.Payload) < m.is.PayloadSize {
			without = append(without, m.id())
		}
	}
	payloads := map[string][]byte{}
	err := each(t.rows("SELECT id, payload FROM {tasks} WHERE {in name id}", sqlkit.Keys(without)), func(m *taskFields) { payloads[m.ID] = m.Payload })
	for _, m := range w.rows {
		if payload, read := payloads[m.id()]; read {
			m.is.Payload = payload
		}
	}
	return err
}
