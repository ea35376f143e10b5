package store

import (
	"database/sql"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// begin starts a deciding transaction. One statement reads whether its session is live and the database's time, from which
// judge makes the moment. It takes no lock: a session may be declared dead before this transaction commits, and Reap finds
// what the transaction then leaves.
//
// It fails with ledger.ErrSessionDead for a session that was declared dead, or never existed.
func (t *tx) begin(session string, judge ledger.Judge) (now time.Time, err error) {
	var dead bool
	var at sql.NullInt64
	found, err := t.One("SELECT dead, {now} FROM {sessions} WHERE id=?", []any{session}, &dead, &at)
	if err == nil && (!found || dead) {
		err = ledger.ErrSessionDead
	}
	if err != nil {
		return now, err
	}
	if !at.Valid {
		return t.judged(judge)
	}
	return judged(judge, fromMicros(at.Int64))
}

// judged is what judge makes of the database's time.
func (t *tx) judged(judge ledger.Judge) (now time.Time, err error) {
	if now, err = t.Now(); err != nil {
		return now, err
	}
	return judged(judge, now)
}

func judged(judge ledger.Judge, database time.Time) (now time.Time, err error) {
	now, err = judge(database)
	return now.UTC().Truncate(time.Microsecond), err
}
