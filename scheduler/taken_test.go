package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// What has a job's slot is said: whose run, where, and since when.
func TestSlotTaken(t *testing.T) {
	now := clockTime("12:00:05")
	task := ledger.OpenTask{
		ID: "t1", ScheduledAt: clockTime("12:00:00"), State: jobs.StatePending, Pool: "default", RunAt: clockTime("12:00:00"),
	}
	running, waits, later, byHand := task, task, task, task
	running.State, running.Attempt, running.Replica, running.StartedAt = jobs.StateRunning, 2, "b", clockTime("12:00:03").Add(400*time.Millisecond)
	waits.Attempt, waits.RunAt = 1, clockTime("12:00:09")
	later.RunAt = clockTime("12:00:09")
	byHand.ScheduledAt = clockTime("12:00:00").Add(25 * time.Millisecond)
	const wait = "wait for its end, or cancel it first: scheduler tasks cancel t1"
	const force = "try again then; if you know that it has ended, start it now: scheduler jobs run j --force"
	lost := ledger.LostTask{ID: "t1", ScheduledAt: clockTime("12:00:00"), Replica: "b", At: clockTime("12:00:04")}
	for _, c := range []struct {
		state       ledger.JobState
		why, remedy string
	}{
		{ledger.JobState{}, "", ""},
		{open(running), "the run of 2026-03-01T12:00:00Z (task t1) has been running on replica b since 2026-03-01T12:00:03Z", wait},
		{open(waits), "the run of 2026-03-01T12:00:00Z (task t1) waits for a retry at 2026-03-01T12:00:09Z", wait},
		{open(later), "the run of 2026-03-01T12:00:00Z (task t1) waits until 2026-03-01T12:00:09Z", wait},
		{open(task), "the run of 2026-03-01T12:00:00Z (task t1) has been pending in pool default since 2026-03-01T12:00:00Z", wait},
		{open(byHand), "the run of 2026-03-01T12:00:00.025Z (task t1) has been pending in pool default since 2026-03-01T12:00:00Z", wait},
		{open(running, task, task), "the run of 2026-03-01T12:00:00Z (task t1) has been running on replica b since 2026-03-01T12:00:03Z; 2 more of the job are open", wait},
		{ledger.JobState{BusyUntil: clockTime("12:00:06")}, "a lost attempt may run until 2026-03-01T12:00:06Z", force},
		{
			ledger.JobState{BusyUntil: clockTime("12:00:06"), Lost: &lost},
			"a lost attempt may run until 2026-03-01T12:00:06Z: the run of 2026-03-01T12:00:00Z (task t1) was lost with replica b at 2026-03-01T12:00:04Z", force,
		},
		{ledger.JobState{BusyUntil: clockTime("12:00:05"), Lost: &lost}, "", ""},
	} {
		why, remedy := decider{now: now}.slotTaken(&jobPlan{}, c.state, "scheduler jobs run j --force")
		if d := cmp.Diff([]string{c.why, c.remedy}, []string{why, remedy}); d != "" {
			t.Error(d)
		}
	}
	if why, _ := (decider{now: now}).slotTaken(&jobPlan{Job: jobs.Job{Concurrency: jobs.Allow}}, open(running), ""); why != "" {
		t.Errorf("allow: %s", why)
	}
	long := running
	long.ID, long.Replica, long.ScheduledAt = strings.Repeat("i", 36), strings.Repeat("r", 128), now.Add(time.Microsecond)
	if why, _ := (decider{now: now}).slotTaken(&jobPlan{}, open(long, long), ""); len(why) > 512 {
		t.Errorf("the column holds 512 bytes, and it has %d", len(why))
	}
}

// Force takes the slot of a lost attempt, and no other; what it says fits the room that the store gives it.
func TestOverride(t *testing.T) {
	d := decider{now: clockTime("12:00:05")}
	lost := ledger.LostTask{ID: strings.Repeat("i", 36), ScheduledAt: d.now.Add(time.Microsecond), Replica: strings.Repeat("r", 128), At: d.now}
	busy := ledger.JobState{BusyUntil: clockTime("12:00:06"), Lost: &lost}
	free, note := d.override(&jobPlan{}, busy)
	if !free.BusyUntil.IsZero() || free.Lost != nil || note != ledger.Forced+d.mayRun(busy) || len(note) > 352 {
		t.Errorf("%+v: %s (%d bytes)", free, note, len(note))
	}
	taken := busy
	taken.Open = []ledger.OpenTask{{ID: "t1", State: jobs.StateRunning, Replica: "b"}}
	for name, state := range map[string]ledger.JobState{
		"a task runs": taken, "its time is over": {BusyUntil: d.now, Lost: &lost}, "nothing was lost": {},
	} {
		if got, note := d.override(&jobPlan{}, state); note != "" || !got.BusyUntil.Equal(state.BusyUntil) {
			t.Errorf("%s: %s %+v", name, note, got)
		}
	}
	if _, note := d.override(&jobPlan{Job: jobs.Job{Concurrency: jobs.Allow}}, busy); note != "" {
		t.Errorf("allow: %s", note)
	}
}

func open(tasks ...ledger.OpenTask) ledger.JobState { return ledger.JobState{Open: tasks} }

// A due time behind one that the same decision opens is told so.
func TestTakenByTheSameDecision(t *testing.T) {
	j := jobs.Job{Schedule: "* * * * * *", Handler: nothing{}}
	j.CatchUp.Grace = 2 * time.Second
	p, err := newPlan(jobs.Set{Jobs: map[string]jobs.Job{"j": j}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := decider{
		plan: p, replica: "a", now: clockTime("12:00:05"),
		newID:  func(string, int) string { return "t1" },
		claims: func(string) bool { return true },
	}
	dec, ok := d.decide(ledger.JobState{Name: "j", Hash: p.jobs["j"].hash, Cursor: clockTime("12:00:03")})
	if !ok || len(dec.Triggers) != 2 {
		t.Fatalf("%+v", dec)
	}
	if got := dec.Triggers[1].Trigger.Reason; got != "the run of 2026-03-01T12:00:04Z (task t1) was opened first, at 2026-03-01T12:00:05Z" {
		t.Error(got)
	}
}
