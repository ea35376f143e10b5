package store

import (
	"database/sql"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// begin is how a deciding transaction starts: its session lives, and the moment is what judge makes of the
// database's time; one statement asks for both. It takes no lock: a session may be declared dead before
// this transaction commits, and Reap finds what it then leaves.
//
// It fails with ledger.ErrSessionDead for a session that was declared dead, or never was.
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
