package store

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	pausesRead = 50               // pauses and resumptions, the latest ones first
	auditedIn  = 10 * time.Second // an entry of the audit is written after what it is about
)

// pausedOver finds the pause of everything that held the decisions of a quiet time, by the latest entries of the audit. A pause that was not resumed has ended by
// itself: it counts only if nothing was decided after it began.
//
// Index: audit_at, a range from its end.
func (t *tx) pausedOver(about time.Time, q *ledger.Quiet) error {
	var resumed wire.AuditEntry
	done := false
	return each(t.rows(`SELECT at, who, remote, action FROM (SELECT at, who, remote, action, status FROM {audit}{index}{audit}_at{end} WHERE at<=? ORDER BY at DESC LIMIT ?) AS latest
		WHERE action IN ('POST /pause', 'POST /resume') AND status<300 ORDER BY at DESC LIMIT ?`, micros(q.Until.Add(auditedIn)), pauseLook, pausesRead), func(m *auditModel) {
		switch e := m.entry(); {
		case done, e.Action == "POST /pause" && e.At.After(q.Until):
		case e.Action == "POST /resume" && q.Paused.At.IsZero() && e.At.After(about):
			resumed = e
		case e.Action == "POST /resume": // what came before it had ended when the time was due, or the pause is found
			done = true
		case resumed.At.IsZero() && q.From.After(e.At):
			done = true
		default: // of several without a resumption between, the first began it
			q.Paused, q.Resumed = e, resumed
		}
	})
}
