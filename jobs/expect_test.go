package jobs_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

type toldNobody struct{}

func (toldNobody) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// Late runs, starts and successes are told of where that was asked for; who lists no events has those that it always had.
func TestSomeEventsHaveToBeNamed(t *testing.T) {
	byDefault := jobs.Notify{Handler: toldNobody{}}
	for e, want := range map[jobs.Event]bool{jobs.EventFailed: true, jobs.EventMissed: true, jobs.EventLost: true, jobs.EventRecovered: true, jobs.EventPaused: true, jobs.EventLate: false, jobs.EventStarted: false, jobs.EventSucceeded: false} {
		if byDefault.Wants(e) != want {
			t.Errorf("%s is told of by default: %v", e, !want)
		}
	}
	if named := (jobs.Notify{Handler: toldNobody{}, On: []jobs.Event{jobs.EventLate}}); !named.Wants(jobs.EventLate) || named.Wants(jobs.EventFailed) {
		t.Error("late alone is not what is told of")
	}
	if named := (jobs.Notify{Handler: toldNobody{}, On: []jobs.Event{jobs.EventStarted, jobs.EventSucceeded}}); !named.Wants(jobs.EventStarted) || !named.Wants(jobs.EventSucceeded) || named.Wants(jobs.EventLate) {
		t.Error("starts and successes alone are not what is told of")
	}
}

func TestSentenceOfALateRun(t *testing.T) {
	n := jobs.Notification{Event: jobs.EventLate, Name: "prod", Job: "backup", ScheduledAt: time.Date(2026, 6, 1, 2, 30, 0, 0, time.UTC), Reason: "not started by 2026-06-01T02:31:00Z", ReasonCode: reason.StartLate}
	if got, want := n.Sentence(), "[prod] job backup is late, the run of 2026-06-01T02:30:00Z: not started by 2026-06-01T02:31:00Z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What is expected is in the definition's hash only if something is.
func TestExpectationsAndTheHash(t *testing.T) {
	plain := jobs.Job{Schedule: "@daily"}
	expects := plain
	expects.Expect.StartWithin = time.Minute
	if plain.Hash() == expects.Hash() || plain.ScheduleHash() != expects.ScheduleHash() {
		t.Error("the hash is not that of what is expected")
	}
}
