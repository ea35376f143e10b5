package triggers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// row is one ledger row in short: "12:00:05 open schedule", "12:00:01..12:00:04 missed 4 catch_up".
func row(o ledger.Opening) string {
	t := o.Trigger
	at := t.At.Format("15:04:05")
	if !t.Until.IsZero() {
		at += ".." + t.Until.Format("15:04:05")
	}
	if o.Task != nil {
		return fmt.Sprintf("%s open %s", at, t.Cause)
	}
	return fmt.Sprintf("%s %s %d %s %s", at, t.Outcome, t.Count, t.Cause, t.ReasonCode)
}

func TestDecide(t *testing.T) {
	everySecond := func(edit func(*jobs.Job)) jobs.Job {
		j := jobs.Job{Schedule: "* * * * * *", Handler: replicatest.Nothing{}}
		j.CatchUp.Grace = 2 * time.Second
		if edit != nil {
			edit(&j)
		}
		return j
	}
	yes := true
	cases := []struct {
		name   string
		job    jobs.Job
		cursor string
		now    string
		state  ledger.JobState
		want   []string
		upTo   string // cursor after; "" = unchanged
		next   string
	}{{
		name: "nothing is due", job: everySecond(nil), cursor: "12:00:05", now: "12:00:05",
	}, {
		name: "one due time runs", job: everySecond(nil), cursor: "12:00:04", now: "12:00:05",
		want: []string{"12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "forbid: the second due time finds the slot taken", job: everySecond(nil), cursor: "12:00:03", now: "12:00:05",
		want: []string{"12:00:04 open schedule", "12:00:05 skipped 1 schedule slot_taken"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "allow: both run", job: everySecond(func(j *jobs.Job) { j.Concurrency = jobs.Allow }),
		cursor: "12:00:03", now: "12:00:05",
		want: []string{"12:00:04 open schedule", "12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "forbid: an open task has the slot", job: everySecond(nil), cursor: "12:00:04", now: "12:00:05",
		state: ledger.JobState{Open: []jobs.Task{{ID: "t1", State: jobs.StateRunning}}},
		want:  []string{"12:00:05 skipped 1 schedule slot_taken"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "forbid: a lost attempt may still run", job: everySecond(nil), cursor: "12:00:04", now: "12:00:05",
		state: ledger.JobState{BusyUntil: replicatest.Time("12:00:06")},
		want:  []string{"12:00:05 skipped 1 schedule lost_may_run"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "forbid: its time is over", job: everySecond(nil), cursor: "12:00:04", now: "12:00:05",
		state: ledger.JobState{BusyUntil: replicatest.Time("12:00:05")},
		want:  []string{"12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "suspended by the API", job: everySecond(nil), cursor: "12:00:02", now: "12:00:05",
		state: ledger.JobState{Suspended: &yes},
		want:  []string{"12:00:03..12:00:05 skipped 3 schedule suspended"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "latest: a due time within the grace stands for the late ones", job: everySecond(nil), cursor: "12:00:00", now: "12:00:05",
		want: []string{
			"12:00:01..12:00:02 missed 2 catch_up catch_up_latest", "12:00:03 open schedule",
			"12:00:04 skipped 1 schedule slot_taken", "12:00:05 skipped 1 schedule slot_taken",
		}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "latest: only late ones, the latest runs", job: everySecond(func(j *jobs.Job) { j.Schedule = "0 * * * * *" }),
		cursor: "12:00:00", now: "12:03:30",
		want: []string{"12:01:00..12:02:00 missed 2 catch_up catch_up_latest", "12:03:00 open catch_up"}, upTo: "12:03:00", next: "12:04:00",
	}, {
		name: "latest: outside the window nothing runs", job: everySecond(func(j *jobs.Job) {
			j.Schedule = "0 0 * * * *"
			j.CatchUp.Window = time.Minute
		}), cursor: "10:00:00", now: "12:30:00",
		want: []string{"11:00:00..12:00:00 missed 2 catch_up catch_up_window"}, upTo: "12:00:00", next: "13:00:00",
	}, {
		name: "latest: a part outside the window", job: everySecond(func(j *jobs.Job) {
			j.Schedule = "0 0 * * * *"
			j.CatchUp.Window = 150 * time.Minute
		}), cursor: "08:00:00", now: "12:00:30",
		want: []string{"09:00:00 missed 1 catch_up catch_up_window", "10:00:00..11:00:00 missed 2 catch_up catch_up_latest", "12:00:00 open catch_up"}, upTo: "12:00:00", next: "13:00:00",
	}, {
		name: "none", job: everySecond(func(j *jobs.Job) {
			j.Schedule = "0 * * * * *"
			j.CatchUp.Policy = jobs.CatchUpNone
		}), cursor: "12:00:00", now: "12:03:30",
		want: []string{"12:01:00..12:03:00 missed 3 catch_up catch_up_none"}, upTo: "12:03:00", next: "12:04:00",
	}, {
		name: "all with allow: the latest ones within the limit", job: everySecond(func(j *jobs.Job) {
			j.Schedule, j.Concurrency = "0 * * * * *", jobs.Allow
			j.CatchUp.Policy, j.CatchUp.Limit = jobs.CatchUpAll, 2
		}), cursor: "12:00:00", now: "12:03:30",
		want: []string{"12:01:00 missed 1 catch_up catch_up_limit", "12:02:00 open catch_up", "12:03:00 open catch_up"}, upTo: "12:03:00", next: "12:04:00",
	}, {
		name: "all with forbid: one after the other", job: everySecond(func(j *jobs.Job) {
			j.Schedule = "0 * * * * *"
			j.CatchUp.Policy = jobs.CatchUpAll
		}), cursor: "12:00:00", now: "12:03:30",
		want: []string{"12:01:00 open catch_up"}, upTo: "12:01:59.999999", next: "12:03:31",
	}, {
		name: "all with forbid: the slot is taken, all wait", job: everySecond(func(j *jobs.Job) {
			j.Schedule = "0 * * * * *"
			j.CatchUp.Policy = jobs.CatchUpAll
		}), cursor: "12:00:00", now: "12:03:30",
		state: ledger.JobState{Open: []jobs.Task{{ID: "t1"}}},
		upTo:  "12:00:59.999999", next: "12:03:31",
	}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			now := replicatest.Time(c.now)
			c.state.Name, c.state.Hash, c.state.Cursor = "j", p.Jobs["j"].Hash, replicatest.Time(c.cursor)
			d := rules{
				plan: p, replica: "a", now: now,
				newID: func(job string, n int) string { return fmt.Sprint(job, n) },
			}
			dec, ok := d.decide(c.state)
			if !ok {
				t.Fatal("not decided")
			}
			var got []string
			for _, o := range dec.Triggers {
				got = append(got, row(o))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			for what, pair := range map[string][2]any{"cursor": {c.upTo, dec.Cursor}, "next": {c.next, dec.NextAt}} {
				want, got := "", pair[1].(time.Time)
				if !got.IsZero() {
					want = got.Format("15:04:05.999999")
				}
				if want != pair[0] {
					t.Errorf("%s is %q, want %q", what, want, pair[0])
				}
			}
		})
	}
}

// Whatever the policy, every due time is covered by exactly one row.
func TestDecideCoversEveryDueTime(t *testing.T) {
	for _, policy := range []jobs.CatchUpPolicy{jobs.CatchUpNone, jobs.CatchUpLatest, jobs.CatchUpAll} {
		for _, concurrency := range []jobs.Concurrency{jobs.Allow, jobs.Forbid} {
			t.Run(fmt.Sprint(policy, " ", concurrency), func(t *testing.T) {
				p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {
					Schedule: "*/7 * * * * *", Handler: replicatest.Nothing{}, Concurrency: concurrency,
					CatchUp: jobs.CatchUp{Policy: policy, Window: 5 * time.Minute, Limit: 5},
				}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				start := replicatest.Time("12:00:00")
				state := ledger.JobState{Name: "j", Hash: p.Jobs["j"].Hash, Cursor: start}
				covered := 0
				now := start.Add(20 * time.Minute)
				for step := range 50 {
					d := rules{plan: p, now: now, newID: func(string, int) string { return "id" }}
					dec, _ := d.decide(state)
					last := state.Cursor
					for _, o := range dec.Triggers {
						if !o.Trigger.At.After(last) {
							t.Fatalf("step %d: %s is not after %s", step, row(o), last)
						}
						covered += o.Trigger.Count
						last = o.Trigger.At
						if !o.Trigger.Until.IsZero() {
							last = o.Trigger.Until
						}
					}
					if !dec.Cursor.IsZero() {
						if n, _ := p.Jobs["j"].Times.CountBetween(last, dec.Cursor); n > 0 || dec.Cursor.Before(last) {
							t.Fatalf("step %d: rows reach %v, the cursor %v", step, last, dec.Cursor)
						}
						state.Cursor = dec.Cursor
					}
					now = now.Add(time.Second)
				}
				if due, _ := p.Jobs["j"].Times.CountBetween(start, state.Cursor); covered != due {
					t.Errorf("the rows cover %d due times of %d", covered, due)
				}
				if now.Sub(state.Cursor) > time.Minute {
					t.Errorf("the cursor stands at %v, now is %v", state.Cursor, now)
				}
			})
		}
	}
}

func TestDecideLeavesANewerConfigurationAlone(t *testing.T) {
	p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: replicatest.Nothing{}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := (rules{plan: p, now: time.Now()}).decide(ledger.JobState{Name: "j", Hash: "other"}); ok {
		t.Error("decided a job whose row carries another definition")
	}
}
