package ledger_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

func TestWait(t *testing.T) {
	due := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	now := due.Add(time.Hour)
	var d ledger.Decision
	d.Wait(due, now)
	if !d.Cursor.Equal(due.Add(-time.Microsecond)) || !d.Waiting.Equal(due) || !d.NextAt.Equal(now.Add(time.Second)) {
		t.Errorf("%+v", d)
	}
	if got := ledger.Undecided(d.NextAt, d.Waiting); !got.Equal(due) {
		t.Errorf("what waits was due at %v, not %v", due, got)
	}
	if got := ledger.Undecided(due, time.Time{}); !got.Equal(due) {
		t.Errorf("nothing waits, and %v is next", got)
	}
	if got := ledger.Undecided(time.Time{}, time.Time{}); !got.IsZero() {
		t.Errorf("of a job that is never due: %v", got)
	}
}
