package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// TestShowQuarantine: a quarantined task is shown with the replicas that died while they had it.
func TestShowQuarantine(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 3, 1, 2, 0, second, 0, time.UTC) }
	task := wire.NewTask(jobs.Task{
		ID: "7", State: jobs.StateLost, ReasonCode: reason.Quarantined, Attempt: 3, Replica: "c", StartedAt: at(5), FinishedAt: at(6),
	}, []jobs.Attempt{
		{Attempt: 1, State: jobs.StateLost, ReasonCode: reason.ReplicaDied, Replica: "a", StartedAt: at(1), FinishedAt: at(2)},
		{Attempt: 2, State: jobs.StateFailed, ReasonCode: reason.Error, Replica: "b", StartedAt: at(3), FinishedAt: at(4)},
	})
	var out strings.Builder
	a := &app{now: func() time.Time { return at(9) }}
	if err := a.showTask(&out, task); err != nil {
		t.Fatal(err)
	}
	want := "Replicas that died while they had it: ATTEMPT REPLICA STARTED(UTC) LOST(UTC) 1 a 2026-03-01 02:00:01 2026-03-01 02:00:02 3 c 2026-03-01 02:00:05 2026-03-01 02:00:06 Earlier attempts:"
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
		t.Error(got)
	}
	if lost := wire.NewTask(jobs.Task{State: jobs.StateLost, ReasonCode: reason.LostLimit}, task.Attempts).Quarantine; lost != nil {
		t.Errorf("of another task: %+v", lost)
	}
}
