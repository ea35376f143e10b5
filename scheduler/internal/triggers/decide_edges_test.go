package triggers

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// decides decides about one job at 12:00:05, from a cursor, with a task that has the slot or none.
func decides(t *testing.T, j jobs.Job, cursor string, taken bool) (ledger.Decision, bool) {
	t.Helper()
	j.Handler = replicatest.Nothing{}
	p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": j}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := ledger.JobState{Name: "j", Hash: p.Jobs["j"].Hash, Cursor: replicatest.Time(cursor)}
	if taken {
		state.Open = []jobs.Task{{ID: "t1", State: jobs.StateRunning}}
	}
	return rules{
		plan: p, replica: "a", now: replicatest.Time("12:00:05"),
		newID: func(job string, n int) string { return fmt.Sprint(job, n) },
	}.decide(state)
}

// Decisions about due times that lie at a limit.
func TestDecideAtItsEdges(t *testing.T) {
	second := jobs.Job{Schedule: "* * * * * *", CatchUp: jobs.CatchUp{Grace: 2 * time.Second}}
	minute := jobs.Job{Schedule: "0 * * * * *", CatchUp: jobs.CatchUp{Grace: 2 * time.Second}}
	with := func(j jobs.Job, p jobs.CatchUpPolicy, window time.Duration) jobs.Job {
		j.CatchUp.Policy, j.CatchUp.Window = p, window
		return j
	}
	onDemand := jobs.Job{}
	for what, c := range map[string]struct {
		job    jobs.Job
		cursor string
		taken  bool
		want   []string
		upTo   string
	}{
		"all: within the grace it is skipped while the slot is taken":      {with(second, jobs.CatchUpAll, 0), "12:00:04", true, []string{"12:00:05 skipped 1 schedule slot_taken"}, "12:00:05"},
		"all: at the end of the grace it is not late":                      {with(second, jobs.CatchUpAll, 0), "12:00:02", true, []string{"12:00:03 skipped 1 schedule slot_taken", "12:00:04 skipped 1 schedule slot_taken", "12:00:05 skipped 1 schedule slot_taken"}, "12:00:05"},
		"latest: a late one is skipped while the slot is taken":            {minute, "11:59:30", true, []string{"12:00:00 skipped 1 catch_up slot_taken"}, "12:00:00"},
		"none: nothing late runs":                                          {with(minute, jobs.CatchUpNone, 0), "11:58:30", false, []string{"11:59:00..12:00:00 missed 2 catch_up catch_up_none"}, "12:00:00"},
		"a window shorter than the grace takes nothing from the grace":     {with(second, jobs.CatchUpLatest, time.Nanosecond), "12:00:01", false, []string{"12:00:02 missed 1 catch_up catch_up_window", "12:00:03 open schedule", "12:00:04 skipped 1 schedule slot_taken", "12:00:05 skipped 1 schedule slot_taken"}, "12:00:05"},
		"at the beginning of the window it is not too old":                 {with(minute, jobs.CatchUpLatest, 5*time.Second), "11:58:30", false, []string{"11:59:00 missed 1 catch_up catch_up_window", "12:00:00 open catch_up"}, "12:00:00"},
		"just before the window it is":                                     {with(minute, jobs.CatchUpLatest, 5*time.Second-1), "11:58:30", false, []string{"11:59:00..12:00:00 missed 2 catch_up catch_up_window"}, "12:00:00"},
		"a job that runs on demand has no due times":                       {onDemand, "11:00:00", false, nil, ""},
		"a due time at the cursor is decided, and the next one is not due": {minute, "12:00:00", false, nil, ""},
	} {
		dec, ok := decides(t, c.job, c.cursor, c.taken)
		var got []string
		for _, o := range dec.Triggers {
			got = append(got, row(o))
		}
		upTo := ""
		if !dec.Cursor.IsZero() {
			upTo = dec.Cursor.Format("15:04:05.999999")
		}
		if diff := cmp.Diff(c.want, got); diff != "" || upTo != c.upTo || !ok || dec.Job != "j" {
			t.Errorf("%s: decided: %v, up to %q, want %q\n%s", what, ok, upTo, c.upTo, diff)
		}
	}
	if _, ok := (rules{plan: &plan.Plan{}}).decide(ledger.JobState{Name: "nobody's"}); ok {
		t.Error("decided a job that this replica does not know")
	}
}

// The row of a due time that does not run has the reason, the due times it stands for, and the replica that decided it.
func TestWhatIsSaidOfWhatDoesNotRun(t *testing.T) {
	at := replicatest.Time
	minute := func(p jobs.CatchUpPolicy, window time.Duration, limit int) jobs.Job {
		return jobs.Job{Schedule: "0 * * * * *", CatchUp: jobs.CatchUp{Policy: p, Grace: 2 * time.Second, Window: window, Limit: limit}}
	}
	suspended := minute(jobs.CatchUpLatest, time.Hour, 0)
	suspended.Suspend = true
	missed := func(from, to string, n int, code reason.Code, why string) jobs.Trigger {
		t := jobs.Trigger{Job: "j", At: at(from), Until: at(to), Count: n, Cause: jobs.CauseCatchUp, Outcome: jobs.Missed, Reason: why, ReasonCode: code, Replica: "a"}
		if n == 1 {
			t.Until = time.Time{}
		}
		return t
	}
	skipped := func(from, to string, n int, code reason.Code, why string) jobs.Trigger {
		t := missed(from, to, n, code, why)
		t.Outcome = jobs.Skipped
		return t
	}
	for what, c := range map[string]struct {
		job    jobs.Job
		cursor string
		want   []jobs.Trigger // with an outcome
	}{
		"older than the window": {minute(jobs.CatchUpLatest, 3*time.Minute, 0), "11:50:30", []jobs.Trigger{
			missed("11:51:00", "11:57:00", 7, reason.CatchUpWindow, "older than the catch-up window of 3m0s"),
			missed("11:58:00", "11:59:00", 2, reason.CatchUpLatest, "catch-up policy latest: a later due time stands for it"),
		}},
		"none":             {minute(jobs.CatchUpNone, time.Hour, 0), "11:58:30", []jobs.Trigger{missed("11:59:00", "12:00:00", 2, reason.CatchUpNone, "catch-up policy none")}},
		"beyond the limit": {minute(jobs.CatchUpAll, time.Hour, 2), "11:57:30", []jobs.Trigger{missed("11:58:00", "11:58:00", 1, reason.CatchUpLimit, "beyond the catch-up limit of 2")}},
		"suspended":        {suspended, "11:57:30", []jobs.Trigger{skipped("11:58:00", "12:00:00", 3, reason.Suspended, "suspended")}},
	} {
		dec, _ := decides(t, c.job, c.cursor, false)
		var got []jobs.Trigger
		for _, o := range dec.Triggers {
			if o.Trigger.Outcome != "" {
				got = append(got, o.Trigger)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// A task that a due time opens has the settings of its job, and the row names it.
func TestWhatADueTimeOpens(t *testing.T) {
	p, err := plan.New(jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": replicatest.Nothing{}}}},
		Jobs: map[string]jobs.Job{"j": {
			Pool: "p", Kind: "k", Schedule: "0 * * * * *", Payload: json.RawMessage("[1]"), Retries: jobs.Retries{Limit: 4}, OnLost: jobs.LostFails, LostLimit: 7,
			CatchUp: jobs.CatchUp{Grace: time.Minute},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now, at := replicatest.Time("12:00:05"), replicatest.Time("12:00:00")
	dec, _ := rules{
		plan: p, replica: "a", now: now,
		newID: func(job string, n int) string { return fmt.Sprint("task of ", job, n) },
	}.decide(ledger.JobState{Name: "j", Hash: p.Jobs["j"].Hash, Cursor: replicatest.Time("11:59:30")})
	want := ledger.Decision{
		Job: "j", Cursor: at, NextAt: replicatest.Time("12:01:00"), Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{Job: "j", At: at, Count: 1, Cause: jobs.CauseSchedule, TaskID: "task of j0", Replica: "a"},
			Task: &jobs.Task{
				ID: "task of j0", Pool: "p", Kind: "k", Job: "j", ScheduledAt: at, MaxAttempts: 5, OnLost: jobs.LostFails, LostLimit: 7, RunAt: now, Payload: []byte("[1]"),
			},
		}},
	}
	if diff := cmp.Diff(want, dec); diff != "" {
		t.Errorf("decided (-want +got):\n%s", diff)
	}
}
