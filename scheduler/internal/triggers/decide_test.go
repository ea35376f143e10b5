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
	moment := func(at string) string { return "@at " + replicatest.Time(at).Format(time.RFC3339) }
	yes := true
	// On this Thursday "shut" is 12:00:03 to 12:00:06, "gone" the whole day, "past" a year that is over.
	event := func(from, until string) string {
		stamp := func(at string) string { return replicatest.Time(at).UTC().Format("20060102T150405Z") }
		return "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:" + stamp(from) + "\nDTEND:" + stamp(until) + "\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	calendars := map[string]jobs.Calendar{
		"shut": {ICS: event("12:00:03", "12:00:06")},
		"gone": {Dates: []string{replicatest.Time("12:00:00").Format(time.DateOnly)}},
		"past": {Dates: []string{"1999-01-01"}},
	}
	within := func(c jobs.JobCalendars, edit func(*jobs.Job)) jobs.Job {
		j := everySecond(edit)
		j.Concurrency, j.Calendars = jobs.Allow, c
		return j
	}
	shut, shutNext := jobs.JobCalendars{Exclude: []string{"shut"}}, jobs.JobCalendars{Exclude: []string{"shut"}, Otherwise: jobs.OtherwiseNext}
	odd := func(j *jobs.Job) { j.Schedule = "1/2 * * * * *" }
	cases := []struct {
		name   string
		job    jobs.Job
		cursor string
		now    string
		state  ledger.JobState
		want   []string
		upTo   string // cursor after; "" = unchanged
		next   string

		skipped int
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
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes}},
		want:  []string{"12:00:03..12:00:05 skipped 3 schedule suspended"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "suspended until a time that has not come", job: everySecond(nil), cursor: "12:00:02", now: "12:00:05",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes, Until: replicatest.Time("12:00:05.000001")}},
		want:  []string{"12:00:03..12:00:05 skipped 3 schedule suspended"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "suspended until a due time, which runs", job: everySecond(nil), cursor: "12:00:02", now: "12:00:05",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes, Until: replicatest.Time("12:00:05")}},
		want:  []string{"12:00:03..12:00:04 skipped 2 schedule suspended", "12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "suspended until long ago, and nothing was decided since", job: everySecond(func(j *jobs.Job) { j.Schedule = "0 * * * * *" }), cursor: "12:00:00", now: "12:05:30",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes, Until: replicatest.Time("12:02:30")}},
		want:  []string{"12:01:00..12:02:00 skipped 2 catch_up suspended", "12:03:00..12:04:00 missed 2 catch_up catch_up_latest", "12:05:00 open catch_up"}, upTo: "12:05:00", next: "12:06:00",
	}, {
		name: "suspended until before the cursor", job: everySecond(nil), cursor: "12:00:04", now: "12:00:05",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes, Until: replicatest.Time("12:00:01")}},
		want:  []string{"12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "after an override that has ended the definition holds", job: everySecond(func(j *jobs.Job) { j.Suspend = true }), cursor: "12:00:02", now: "12:00:05",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: new(false), Until: replicatest.Time("12:00:04")}},
		want:  []string{"12:00:03..12:00:05 skipped 3 schedule suspended"}, upTo: "12:00:05", next: "12:00:06",
	}, {
		name: "a user has skipped the next one", job: everySecond(nil), cursor: "12:00:03", now: "12:00:05",
		state: ledger.JobState{SkipNext: 1, SkipBy: "ann"},
		want:  []string{"12:00:04 skipped 1 schedule skip_next", "12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06", skipped: 1,
	}, {
		name: "a user has skipped more than are due", job: everySecond(nil), cursor: "12:00:03", now: "12:00:05",
		state: ledger.JobState{SkipNext: 5},
		want:  []string{"12:00:04..12:00:05 skipped 2 schedule skip_next"}, upTo: "12:00:05", next: "12:00:06", skipped: 2,
	}, {
		name: "what a user has skipped counts though the job is suspended", job: everySecond(nil), cursor: "12:00:02", now: "12:00:05",
		state: ledger.JobState{SkipNext: 1, Suspension: ledger.Suspension{Suspended: &yes, Until: replicatest.Time("12:00:05")}},
		want:  []string{"12:00:03 skipped 1 schedule skip_next", "12:00:04 skipped 1 schedule suspended", "12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:06", skipped: 1,
	}, {
		name: "a user has skipped the next one, and none is due", job: everySecond(nil), cursor: "12:00:05", now: "12:00:05",
		state: ledger.JobState{SkipNext: 1},
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
	}, {
		name: "a moment is the last due time", job: everySecond(func(j *jobs.Job) { j.Schedule = moment("12:00:05") }), cursor: "12:00:04", now: "12:00:05",
		want: []string{"12:00:05 open schedule"}, upTo: "12:00:05",
	}, {
		name: "a moment that is late", job: everySecond(func(j *jobs.Job) { j.Schedule = moment("12:00:05") }), cursor: "12:00:04", now: "13:00:05",
		want: []string{"12:00:05 open catch_up"}, upTo: "12:00:05",
	}, {
		name: "a moment before the cursor", job: everySecond(func(j *jobs.Job) { j.Schedule = moment("12:00:05") }), cursor: "12:00:05", now: "13:00:05",
	}, {
		name: "bounds of the schedule", job: everySecond(func(j *jobs.Job) {
			j.StartsAt, j.EndsAt = replicatest.Time("12:00:02"), replicatest.Time("12:00:04")
			j.Concurrency, j.CatchUp.Policy = jobs.Allow, jobs.CatchUpAll
		}), cursor: "11:00:00", now: "13:00:05",
		want: []string{"12:00:02 open catch_up", "12:00:03 open catch_up"}, upTo: "12:00:03",
	}, {
		name: "calendar: the first one of a closure is skipped when it comes", job: within(shut, nil), cursor: "12:00:02", now: "12:00:03",
		want: []string{"12:00:03 skipped 1 schedule calendar"}, upTo: "12:00:03", next: "12:00:06",
	}, {
		name: "calendar: the others when something is due", job: within(shut, nil), cursor: "12:00:03", now: "12:00:06",
		want: []string{"12:00:04..12:00:05 skipped 2 schedule calendar", "12:00:06 open schedule"}, upTo: "12:00:06", next: "12:00:07",
	}, {
		name: "calendar: not before", job: within(shut, nil), cursor: "12:00:02", now: "12:00:02",
	}, {
		name: "calendar: next, and a due time lies at the end of the closure", job: within(shutNext, nil), cursor: "12:00:02", now: "12:00:06",
		want: []string{"12:00:03..12:00:05 skipped 3 schedule calendar", "12:00:06 open schedule"}, upTo: "12:00:06", next: "12:00:07",
	}, {
		name: "calendar: next, the last one waits for the end of the closure", job: within(shutNext, odd), cursor: "12:00:01", now: "12:00:05",
		want: []string{"12:00:03 skipped 1 schedule calendar"}, upTo: "12:00:03", next: "12:00:06",
	}, {
		name: "calendar: next, and runs then", job: within(shutNext, odd), cursor: "12:00:03", now: "12:00:06",
		want: []string{"12:00:05 open schedule"}, upTo: "12:00:05", next: "12:00:07",
	}, {
		name: "calendar: next, it is late from the end of the closure on", job: within(shutNext, func(j *jobs.Job) { odd(j); j.CatchUp.Policy = jobs.CatchUpNone }), cursor: "12:00:03", now: "12:00:08",
		want: []string{"12:00:05 open schedule", "12:00:07 open schedule"}, upTo: "12:00:07", next: "12:00:09",
	}, {
		name: "calendar: next, it is late", job: within(shutNext, func(j *jobs.Job) { odd(j); j.CatchUp.Policy = jobs.CatchUpNone }), cursor: "12:00:03", now: "12:00:08.5",
		want: []string{"12:00:05 missed 1 catch_up catch_up_none", "12:00:07 open schedule"}, upTo: "12:00:07", next: "12:00:09",
	}, {
		name: "calendar: the latest is one that is allowed", job: within(jobs.JobCalendars{Exclude: []string{"shut"}}, func(j *jobs.Job) { j.EndsAt = replicatest.Time("12:00:06") }), cursor: "12:00:00", now: "12:01:00",
		want: []string{"12:00:01 missed 1 catch_up catch_up_latest", "12:00:02 open catch_up", "12:00:03..12:00:05 skipped 3 schedule calendar"}, upTo: "12:00:05",
	}, {
		name: "calendar: all are those that are allowed", job: within(shut, func(j *jobs.Job) {
			j.EndsAt, j.CatchUp.Policy, j.CatchUp.Limit = replicatest.Time("12:00:08"), jobs.CatchUpAll, 3
		}), cursor: "12:00:00", now: "12:01:00",
		want: []string{
			"12:00:01 missed 1 catch_up catch_up_limit", "12:00:02 open catch_up", "12:00:03..12:00:05 skipped 3 schedule calendar",
			"12:00:06 open catch_up", "12:00:07 open catch_up",
		}, upTo: "12:00:07",
	}, {
		name: "calendar: all with next, with one of the closure", job: within(shutNext, func(j *jobs.Job) {
			odd(j)
			j.EndsAt, j.CatchUp.Policy, j.CatchUp.Limit = replicatest.Time("12:00:08"), jobs.CatchUpAll, 2
		}), cursor: "12:00:00", now: "12:01:00",
		want: []string{"12:00:01 missed 1 catch_up catch_up_limit", "12:00:03 skipped 1 schedule calendar", "12:00:05 open catch_up", "12:00:07 open catch_up"}, upTo: "12:00:07",
	}, {
		name: "calendar: older than the window", job: within(shut, func(j *jobs.Job) { j.CatchUp.Window = 3 * time.Second; j.EndsAt = replicatest.Time("12:00:08") }), cursor: "12:00:00", now: "12:00:10",
		want: []string{
			"12:00:01..12:00:02 missed 2 catch_up catch_up_window", "12:00:03..12:00:05 skipped 3 schedule calendar", "12:00:06 missed 1 catch_up catch_up_window", "12:00:07 open catch_up",
		}, upTo: "12:00:07",
	}, {
		name: "calendar: a suspended job", job: within(shutNext, odd), cursor: "12:00:00", now: "12:00:07",
		state: ledger.JobState{Suspension: ledger.Suspension{Suspended: &yes}},
		want:  []string{"12:00:01 skipped 1 catch_up suspended", "12:00:03 skipped 1 schedule calendar", "12:00:05..12:00:07 skipped 2 schedule suspended"}, upTo: "12:00:07", next: "12:00:09",
	}, {
		name: "calendar: the slot is taken", job: func() jobs.Job {
			j := within(shut, func(j *jobs.Job) { j.CatchUp.Policy, j.EndsAt = jobs.CatchUpAll, replicatest.Time("12:00:08") })
			j.Concurrency = jobs.Forbid
			return j
		}(), cursor: "12:00:02", now: "12:01:00",
		state: ledger.JobState{Open: []jobs.Task{{ID: "t1"}}},
		want:  []string{"12:00:03..12:00:05 skipped 3 schedule calendar"}, upTo: "12:00:05.999999", next: "12:01:01",
	}, {
		name: "calendar: a whole day, an hour at a time", job: within(jobs.JobCalendars{Exclude: []string{"gone"}}, nil), cursor: "12:00:02", now: "13:00:02",
		want: []string{"12:00:03..13:00:02 skipped 3600 schedule calendar"}, upTo: "13:00:02", next: "14:00:02",
	}, {
		name: "calendar: none of its dates come", job: within(jobs.JobCalendars{Only: []string{"past"}}, nil), cursor: "12:00:02", now: "12:00:03",
		want: []string{"12:00:03 skipped 1 schedule calendar"}, upTo: "12:00:03", next: "13:00:03",
	}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.New(jobs.Set{Calendars: calendars, Jobs: map[string]jobs.Job{"j": c.job}}, nil)
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
			if dec.Skipped != c.skipped {
				t.Errorf("%d count as skipped by hand, want %d", dec.Skipped, c.skipped)
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

// With calendars, too, every due time is covered by exactly one row: those that run when they fire, and the others by what leaves them out. A closure with
// "next" has one run. Two years at once are as many rows as closures, some hundreds at a time.
func TestDecideCoversEveryDueTimeWithCalendars(t *testing.T) {
	set := jobs.Set{Calendars: map[string]jobs.Calendar{
		"office": {Weekly: []string{"MON-FRI 09:00-17:00"}}, "lunch": {Weekly: []string{"* 12:00-12:30"}},
	}}
	for _, policy := range []jobs.CatchUpPolicy{jobs.CatchUpNone, jobs.CatchUpLatest, jobs.CatchUpAll} {
		for _, otherwise := range []jobs.Otherwise{jobs.OtherwiseSkip, jobs.OtherwiseNext} {
			for _, spec := range []string{"*/7 * * * *", "30 2 * * *", "59 8,16 * * *"} {
				t.Run(fmt.Sprint(policy, " ", otherwise, " ", spec), func(t *testing.T) {
					set.Jobs = map[string]jobs.Job{"j": {
						Schedule: spec, Handler: replicatest.Nothing{}, Concurrency: jobs.Allow, CatchUp: jobs.CatchUp{Policy: policy, Limit: 3},
						Calendars: jobs.JobCalendars{Only: []string{"office"}, Exclude: []string{"lunch"}, Otherwise: otherwise},
					}}
					p, err := plan.New(set, nil)
					if err != nil {
						t.Fatal(err)
					}
					plain, err := (jobs.Job{Schedule: spec}).Compile("j")
					if err != nil {
						t.Fatal(err)
					}
					start := replicatest.Time("12:00:00")
					state := ledger.JobState{Name: "j", Hash: p.Jobs["j"].Hash, Cursor: start}
					now := start.AddDate(2, 0, 0)
					covered, ran, steps := 0, 0, 0
					for end := now.AddDate(0, 0, 8); now.Before(end); steps++ {
						d := rules{plan: p, now: now, newID: func(string, int) string { return "id" }}
						dec, _ := d.decide(state)
						last := state.Cursor
						for _, o := range dec.Triggers {
							tr := o.Trigger
							if first := plain.Next(last); !first.Equal(tr.At) {
								t.Fatalf("%s comes after %s, want %s", row(o), last, first)
							}
							if last = tr.Until; last.IsZero() {
								last = tr.At
							}
							if n, _ := plain.CountBetween(tr.At.Add(-1), last); n != tr.Count {
								t.Fatalf("%s has %d due times", row(o), n)
							}
							covered += tr.Count
							if o.Task == nil {
								continue
							}
							ran++
							if fires := p.Jobs["j"].Times.Fires(tr.At); fires.After(now) || fires.Weekday() == time.Saturday || fires.Hour() < 9 || fires.Hour() >= 17 || fires.Hour() == 12 && fires.Minute() < 30 {
								t.Fatalf("%s runs at %v, and fires at %v", row(o), now, fires)
							}
						}
						if !dec.Cursor.IsZero() {
							if !dec.Cursor.Equal(last) || !dec.NextAt.After(now) && len(dec.Triggers) < leftOutLimit {
								t.Fatalf("rows reach %v, the cursor %v, next at %v, now %v", last, dec.Cursor, dec.NextAt, now)
							}
							state.Cursor = dec.Cursor
						} else if !p.Jobs["j"].Times.Wakes(state.Cursor).After(now) {
							t.Fatalf("at %v nothing is decided after %v, and it is looked at again at once", now, state.Cursor)
						}
						if next := p.Jobs["j"].Times.Wakes(state.Cursor); next.After(now) {
							now = next
						}
					}
					if due, _ := plain.CountBetween(start, state.Cursor); covered != due {
						t.Errorf("the rows cover %d due times of %d", covered, due)
					}
					if now.Sub(state.Cursor) > 80*time.Hour || ran == 0 && (spec == "*/7 * * * *" || otherwise == jobs.OtherwiseNext || spec[0] == '5') || steps > 600 {
						t.Errorf("the cursor stands at %v, now is %v; %d have run, in %d steps", state.Cursor, now, ran, steps)
					}
				})
			}
		}
	}
}
