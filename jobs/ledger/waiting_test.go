package ledger_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

func TestWhatWaitsIsFoundInItsRow(t *testing.T) {
	due := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	for _, now := range []time.Time{due.Add(time.Hour), due.Add(time.Hour + 123456789), due.Add(time.Minute - time.Second)} {
		var d ledger.Decision
		d.Wait(due, now)
		if after := d.NextAt.Sub(now); after <= 0 || after > time.Second+time.Microsecond {
			t.Errorf("looks again after %v", after)
		}
		if got := ledger.Undecided(d.Cursor, d.NextAt); !got.Equal(due) {
			t.Errorf("at %v: what waits was due at %v, not %v", now, got, due)
		}
	}
}

// A cursor may be any moment, since a new job's is when it was defined; next_at then is a due time.
func TestNothingWaits(t *testing.T) {
	next := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	for _, cursor := range []time.Time{next.Add(-time.Minute), next.Add(-time.Microsecond), next.Add(-time.Minute - time.Microsecond)} {
		if got := ledger.Undecided(cursor, next); !got.Equal(next) {
			t.Errorf("after %v: %v", cursor, got)
		}
	}
	if got := ledger.Undecided(next.Add(-time.Microsecond), time.Time{}); !got.IsZero() {
		t.Errorf("of a job that is never due: %v", got)
	}
}
