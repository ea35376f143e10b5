package triggers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A skipped run has what is in its way: which run, where, and since when.
func TestSlotTaken(t *testing.T) {
	now := replicatest.Time("12:00:05")
	task := jobs.Task{
		ID: "t1", ScheduledAt: replicatest.Time("12:00:00"), State: jobs.StatePending, Pool: "default", RunAt: replicatest.Time("12:00:00"),
	}
	running, waits, later, byHand := task, task, task, task
	running.State, running.Attempt, running.Replica, running.StartedAt = jobs.StateRunning, 2, "b", replicatest.Time("12:00:03").Add(400*time.Millisecond)
	waits.Attempt, waits.RunAt = 1, replicatest.Time("12:00:09")
	later.RunAt = replicatest.Time("12:00:09")
	byHand.ScheduledAt = replicatest.Time("12:00:00").Add(25 * time.Millisecond)
	const wait = "wait for its end, or cancel it first: scheduler tasks cancel t1"
	const again = "try again then; if you know that it has ended"
	lost := ledger.LostTask{ID: "t1", ScheduledAt: replicatest.Time("12:00:00"), Replica: "b", At: replicatest.Time("12:00:04"), Until: replicatest.Time("12:00:06")}
	before := lost
	before.ID = "t0"
	for _, c := range []struct {
		state              ledger.JobState
		why, remedy, force string
	}{
		{ledger.JobState{}, "", "", ""},
		{open(running), "the run of 2026-03-01T12:00:00Z (task t1) has been running on replica b since 2026-03-01T12:00:03Z", wait, ""},
		{open(waits), "the run of 2026-03-01T12:00:00Z (task t1) waits for a retry at 2026-03-01T12:00:09Z", wait, ""},
		{open(later), "the run of 2026-03-01T12:00:00Z (task t1) waits until 2026-03-01T12:00:09Z", wait, ""},
		{open(task), "the run of 2026-03-01T12:00:00Z (task t1) has been pending in pool default since 2026-03-01T12:00:00Z", wait, ""},
		{open(byHand), "the run of 2026-03-01T12:00:00.025Z (task t1) has been pending in pool default since 2026-03-01T12:00:00Z", wait, ""},
		{open(running, task, task), "the run of 2026-03-01T12:00:00Z (task t1) has been running on replica b since 2026-03-01T12:00:03Z; 2 more of the job are open", wait, ""},
		{
			ledger.JobState{BusyUntil: replicatest.Time("12:00:06").Add(time.Microsecond)},
			"a lost attempt may run until 2026-03-01T12:00:06Z", again, "2026-03-01T12:00:06.000001Z",
		},
		{
			ledger.JobState{BusyUntil: replicatest.Time("12:00:06"), Lost: []ledger.LostTask{lost}},
			"a lost attempt may run until 2026-03-01T12:00:06Z: the run of 2026-03-01T12:00:00Z (task t1) was lost with replica b at 2026-03-01T12:00:04Z", again, "t1",
		},
		{
			ledger.JobState{BusyUntil: replicatest.Time("12:00:08"), Lost: []ledger.LostTask{lost, before}},
			"2 lost attempts may run until 2026-03-01T12:00:08Z: the run of 2026-03-01T12:00:00Z (task t1) was lost with replica b at 2026-03-01T12:00:04Z, 1 before",
			"try again then; see them: scheduler tasks list --job j --state lost; if you know that all of them have ended", "t1",
		},
		{ledger.JobState{BusyUntil: replicatest.Time("12:00:05"), Lost: []ledger.LostTask{lost}}, "", "", ""},
	} {
		slot := rules{now: now}.slotTaken(&plan.Job{Name: "j"}, c.state)
		if d := cmp.Diff([]string{c.why, c.remedy, c.force}, []string{slot.why, slot.remedy, slot.force}); d != "" {
			t.Error(d)
		}
		if c.force != "" && !slot.until.Equal(c.state.BusyUntil) {
			t.Errorf("until %v", slot.until)
		}
	}
	if slot := (rules{now: now}).slotTaken(&plan.Job{Job: jobs.Job{Concurrency: jobs.Allow}}, open(running)); slot != (taken{}) {
		t.Errorf("allow: %+v", slot)
	}
	long := running
	long.ID, long.Replica, long.ScheduledAt = strings.Repeat("i", 36), strings.Repeat("r", 128), now.Add(time.Microsecond)
	if why := (rules{now: now}).slotTaken(&plan.Job{}, open(long, long)).why; len(why) > 512 {
		t.Errorf("the column holds 512 bytes, and it has %d", len(why))
	}
}

// The refusal of a run has the command that forces it over a lost attempt, ready to be copied, and says that a given force is
// not for what is in the way. A task that is open cannot be forced aside.
func TestRefusals(t *testing.T) {
	lost := taken{why: "it is lost", remedy: "wait; else", until: replicatest.Time("12:00:06"), force: "t2"}
	for _, c := range []struct {
		slot             taken
		said, text, over string
	}{
		{lost, "", "conflict: it is lost; wait; else, start it now: scheduler jobs run j --force=t2", "t2"},
		{lost, "t1", `conflict: it is lost; force does not name it but "t1"; wait; else, start it now: scheduler jobs run j --force=t2`, "t2"},
		{taken{why: "it runs", remedy: "wait"}, "t1", "conflict: it runs; wait", ""},
	} {
		err := c.slot.refusal("j", "scheduler jobs run j", c.said)
		refused, _ := errors.AsType[*jobs.LostError](err)
		if over := refused != nil; err.Error() != c.text || !errors.Is(err, jobs.ErrConflict) || over != (c.over != "") {
			t.Errorf("%v", err)
		} else if over && (refused.Force != c.over || refused.Job != "j" || !refused.Until.Equal(lost.until)) {
			t.Errorf("%+v", refused)
		}
	}
}

// Force takes the slot of the lost attempt that it names, and no other; its note fits the length that the store allows.
func TestOverride(t *testing.T) {
	d, j := rules{now: replicatest.Time("12:00:05")}, &plan.Job{}
	lost := ledger.LostTask{ID: strings.Repeat("i", 36), ScheduledAt: d.now.Add(time.Microsecond), Replica: strings.Repeat("r", 128), At: d.now}
	busy := ledger.JobState{BusyUntil: replicatest.Time("12:00:06"), Lost: slices.Repeat([]ledger.LostTask{lost}, 99)}
	free, note := d.override(j, busy, lost.ID)
	if !free.BusyUntil.IsZero() || free.Lost != nil || note != "forced although "+mayRun(busy) || len(note) > 352 {
		t.Errorf("%+v: %s (%d bytes)", free, note, len(note))
	}
	unknown := ledger.JobState{BusyUntil: replicatest.Time("12:00:06")}
	if free, note := d.override(j, unknown, "2026-03-01T12:00:06Z"); !free.BusyUntil.IsZero() || note != "forced although "+mayRun(unknown) {
		t.Errorf("%+v: %s", free, note)
	}
	taken := busy
	taken.Open = []jobs.Task{{ID: "t1", State: jobs.StateRunning, Replica: "b"}}
	another := busy
	another.Lost = append([]ledger.LostTask{{ID: "another"}}, lost)
	for name, state := range map[string]ledger.JobState{
		"a task runs": taken, "its time is over": {BusyUntil: d.now, Lost: busy.Lost}, "nothing was lost": {}, "it is not known which": unknown,
		"another one was lost later": another,
	} {
		for _, force := range []string{"", "true", lost.ID} {
			if got, note := d.override(j, state, force); note != "" || !got.BusyUntil.Equal(state.BusyUntil) {
				t.Errorf("%s: %s %+v", name, note, got)
			}
		}
	}
	for _, force := range []string{"", "true", "2026-03-01T12:00:06Z"} {
		if got, note := d.override(j, busy, force); note != "" || got.BusyUntil.IsZero() {
			t.Errorf("forced with %q: %s", force, note)
		}
	}
	if _, note := d.override(&plan.Job{Job: jobs.Job{Concurrency: jobs.Allow}}, busy, lost.ID); note != "" {
		t.Errorf("allow: %s", note)
	}
}

func open(tasks ...jobs.Task) ledger.JobState { return ledger.JobState{Open: tasks} }

// A due time behind one that the same decision opens names that one.
func TestTakenByTheSameDecision(t *testing.T) {
	j := jobs.Job{Schedule: "* * * * * *", Handler: replicatest.Nothing{}}
	j.CatchUp.Grace = 2 * time.Second
	p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": j}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := rules{
		plan: p, replica: "a", now: replicatest.Time("12:00:05"),
		newID: func(string, int) string { return "t1" },
	}
	dec, ok := d.decide(ledger.JobState{Name: "j", Hash: p.Jobs["j"].Hash, Cursor: replicatest.Time("12:00:03")})
	if !ok || len(dec.Triggers) != 2 {
		t.Fatalf("%+v", dec)
	}
	if got := dec.Triggers[1].Trigger.Reason; got != "the run of 2026-03-01T12:00:04Z (task t1) was opened first, at 2026-03-01T12:00:05Z" {
		t.Error(got)
	}
}
