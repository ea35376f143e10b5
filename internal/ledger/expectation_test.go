package ledger_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What came late is told with two times that differ, however little late it was.
func TestLateEventNamesTwoTimes(t *testing.T) {
	by := time.Date(2026, 6, 1, 2, 31, 0, 0, time.UTC)
	for want, late := range map[string]time.Duration{
		"started at 2026-06-01T02:31:05Z, not by 2026-06-01T02:31:00Z":             5 * time.Second,
		"started at 2026-06-01T02:31:00.266Z, not by 2026-06-01T02:31:00Z":         266400 * time.Microsecond,
		"started at 2026-06-01T02:31:00.000007Z, not by 2026-06-01T02:31:00Z":      7 * time.Microsecond,
		"started at 2026-06-01T02:31:00.000401Z, not by 2026-06-01T02:31:00.0004Z": time.Microsecond,
	} {
		by := by
		if late == time.Microsecond {
			by = by.Add(400 * time.Microsecond)
		}
		e, is := ledger.LateEvent(jobs.Trigger{Job: "j", StartedAt: by.Add(late).In(time.FixedZone("x", 3600))}, ledger.Expectation{What: ledger.ToStart, By: by})
		if !is || e.Reason != want {
			t.Errorf("%v late: %q, want %q", late, e.Reason, want)
		}
	}
	if _, is := ledger.LateEvent(jobs.Trigger{Job: "j", StartedAt: by}, ledger.Expectation{What: ledger.ToStart, By: by}); is {
		t.Error("what starts in time is late")
	}
	if e, is := ledger.LateEvent(jobs.Trigger{Job: "j", StartedAt: by}, ledger.Expectation{What: ledger.ToFinish, By: by.Add(time.Hour + time.Microsecond)}); !is || e.Reason != "not finished by 2026-06-01T03:31:00Z" {
		t.Errorf("what has not ended: %q", e.Reason)
	}
}
