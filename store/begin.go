package store

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// alive fails for a session that was declared dead, or never was. It takes no lock: a session may
// be declared dead before this transaction commits, and Reap finds what it then leaves.
func (t *tx) alive(session string) error {
	var dead bool
	found, err := t.one("SELECT dead FROM {sessions} WHERE id=?", []any{session}, &dead)
	if err == nil && (!found || dead) {
		return ledger.ErrSessionDead
	}
	return err
}

// begin is how a deciding transaction starts: its session lives, and the moment is what judge makes
// of the database's time.
func (t *tx) begin(session string, judge ledger.Judge) (now time.Time, err error) {
	if err := t.alive(session); err != nil {
		return now, err
	}
	return t.judged(judge)
}

// judged is what judge makes of the database's time.
func (t *tx) judged(judge ledger.Judge) (now time.Time, err error) {
	if now, err = t.now(); err != nil {
		return now, err
	}
	now, err = judge(now)
	return now.UTC().Truncate(time.Microsecond), err
}
