package triggers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// With jitter a trigger is due when it starts: grace, lateness, window and what is suspended count from then on. The row, the cursor and the task
// have the due time.
func TestDecideWithJitter(t *testing.T) {
	const grace, window = 2 * time.Second, 20 * time.Minute
	for _, namespace := range []string{"prod", "staging", ""} {
		p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {
			Schedule: "0 0 * * * *", Jitter: 59 * time.Minute, Handler: replicatest.Nothing{}, CatchUp: jobs.CatchUp{Grace: grace, Window: window},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := p.Jobs["j"]
		due, next := replicatest.Time("12:00:00"), replicatest.Time("13:00:00")
		start, yes := j.Starts(namespace).Of(due), true
		if start.Before(due.Add(time.Minute)) { // else the due time would do as well
			t.Fatalf("%q: starts at %v, which shows nothing", namespace, start)
		}
		for what, c := range map[string]struct {
			now       time.Time
			suspended *bool
			until     time.Time
			want      []string
		}{
			"before the start":           {start.Add(-1), nil, time.Time{}, nil},
			"at the start":               {start, nil, time.Time{}, []string{"12:00:00 open schedule"}},
			"at the end of the grace":    {start.Add(grace), nil, time.Time{}, []string{"12:00:00 open schedule"}},
			"after the grace":            {start.Add(grace + 1), nil, time.Time{}, []string{"12:00:00 open catch_up"}},
			"at the end of the window":   {start.Add(window), nil, time.Time{}, []string{"12:00:00 open catch_up"}},
			"after the window":           {start.Add(window + 1), nil, time.Time{}, []string{"12:00:00 missed 1 catch_up catch_up_window"}},
			"suspended before the start": {start.Add(-1), &yes, time.Time{}, nil},
			"suspended until the start":  {start.Add(time.Second), &yes, start, []string{"12:00:00 open schedule"}},
			"suspended until after it":   {start.Add(time.Second), &yes, start.Add(time.Millisecond), []string{"12:00:00 skipped 1 schedule suspended"}},
			"suspended at the start":     {start, &yes, time.Time{}, []string{"12:00:00 skipped 1 schedule suspended"}},
		} {
			dec, ok := rules{plan: p, replica: "a", of: namespace, now: c.now, newID: func(string, int) string { return "id" }}.decide(
				ledger.JobState{Name: "j", Hash: j.Hash, Cursor: replicatest.Time("11:00:00"), Suspension: ledger.Suspension{Suspended: c.suspended, Until: c.until}})
			var got []string
			for _, o := range dec.Triggers {
				got = append(got, row(o))
				if o.Task != nil && (!o.Task.ScheduledAt.Equal(due) || !o.Task.RunAt.Equal(c.now)) {
					t.Errorf("%q, %s: the task is of %v and runs at %v", namespace, what, o.Task.ScheduledAt, o.Task.RunAt)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || !ok {
				t.Errorf("%q, %s:\n%s", namespace, what, diff)
			}
			if c.want == nil {
				if !dec.Cursor.IsZero() {
					t.Errorf("%q, %s: the cursor goes to %v", namespace, what, dec.Cursor)
				}
				continue
			}
			if after := j.Starts(namespace).Of(next); !dec.Cursor.Equal(due) || !dec.Due.Equal(next) || !dec.NextAt.Equal(after) {
				t.Errorf("%q, %s: the cursor goes to %v, and what is due at %v starts at %v, want %v at %v", namespace, what, dec.Cursor, dec.Due, dec.NextAt, next, after)
			}
		}
	}
}

// A range of due times ends where they have started, and is split where they started before the window, wherever due times are.
func TestRangesWithJitter(t *testing.T) {
	const window = 2 * time.Hour
	suspend := jobs.Job{Schedule: "0 0 * * * *", Jitter: 59 * time.Minute, Handler: replicatest.Nothing{}, Suspend: true}
	late := suspend
	late.Suspend, late.CatchUp = false, jobs.CatchUp{Window: window, Grace: time.Second}
	for n := range 10 {
		namespace := fmt.Sprint("n", n)
		for what, c := range map[string]struct {
			job   jobs.Job
			since string // the start after which it is decided
			after time.Duration
			want  string // the first rows
		}{
			"suspended, at the start":         {suspend, "12:00:00", 0, "11:00:00..12:00:00 skipped 2"},
			"suspended, before the start":     {suspend, "12:00:00", -1, "11:00:00 skipped 1"},
			"at the beginning of the window":  {late, "11:00:00", window, "11:00:00"},
			"before the beginning of it":      {late, "11:00:00", window + 1, "11:00:00 missed 1 catch_up catch_up_window"},
			"the last one has just not begun": {late, "12:00:00", -1, "11:00:00 open"},
		} {
			p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			j := p.Jobs["j"]
			now := j.Starts(namespace).Of(replicatest.Time(c.since)).Add(c.after)
			dec, _ := rules{plan: p, of: namespace, now: now, newID: func(string, int) string { return "id" }}.decide(ledger.JobState{Name: "j", Hash: j.Hash, Cursor: replicatest.Time("10:00:00")})
			if len(dec.Triggers) == 0 || !strings.HasPrefix(row(dec.Triggers[0]), c.want) || c.after == window && strings.Contains(row(dec.Triggers[0]), "window") {
				t.Errorf("%s, %s: decided %d rows, the first %q, want %q", namespace, what, len(dec.Triggers), row(dec.Triggers[0]), c.want)
			}
		}
	}
}

// Whatever the policy, every due time is covered by exactly one row, none before its start, and each within a second of it while all is well.
func TestDecideCoversEveryDueTimeWithJitter(t *testing.T) {
	for _, policy := range []jobs.CatchUpPolicy{jobs.CatchUpNone, jobs.CatchUpLatest, jobs.CatchUpAll} {
		p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {
			Schedule: "*/10 * * * * *", Jitter: 9999 * time.Millisecond, Handler: replicatest.Nothing{}, Concurrency: jobs.Allow,
			CatchUp: jobs.CatchUp{Policy: policy, Window: 5 * time.Minute, Limit: 5, Grace: time.Second},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := p.Jobs["j"]
		start := replicatest.Time("12:00:00")
		state := ledger.JobState{Name: "j", Hash: j.Hash, Cursor: start}
		covered, onTime := 0, 0
		now := start.Add(20 * time.Minute)
		for step := range 100 {
			dec, _ := rules{plan: p, of: "prod", now: now, newID: func(string, int) string { return "id" }}.decide(state)
			for _, o := range dec.Triggers {
				last := o.Trigger.At
				if !o.Trigger.Until.IsZero() {
					last = o.Trigger.Until
				}
				if n, _ := j.Times.CountBetween(state.Cursor, last); n != o.Trigger.Count {
					t.Fatalf("%s, step %d: %s covers %d due times after %v", policy, step, row(o), n, state.Cursor)
				}
				if begins := j.Starts("prod").Of(last); begins.After(now) {
					t.Fatalf("%s, step %d: %s starts at %v, now is %v", policy, step, row(o), begins, now)
				} else if o.Trigger.Cause == jobs.CauseSchedule && now.Sub(begins) <= time.Second {
					onTime++
				}
				covered, state.Cursor = covered+o.Trigger.Count, last
			}
			if !dec.Cursor.IsZero() && !dec.Cursor.Equal(state.Cursor) {
				t.Fatalf("%s, step %d: rows reach %v, the cursor %v", policy, step, state.Cursor, dec.Cursor)
			}
			now = now.Add(time.Second)
		}
		if due, _ := j.Times.CountBetween(start, state.Cursor); covered != due || onTime < 9 || now.Sub(state.Cursor) > 21*time.Second {
			t.Errorf("%s: the rows cover %d due times of %d, %d on time, up to %v; now is %v", policy, covered, due, onTime, state.Cursor, now)
		}
	}
}

// The order of starts is that of due times, so the next look is when the next one starts.
func TestTheNextLookIsAtTheStart(t *testing.T) {
	p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Jitter: time.Minute, Handler: replicatest.Nothing{}}, "none": {Handler: replicatest.Nothing{}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		namespace := fmt.Sprint("n", n)
		due, next := p.Jobs["j"].Coming(replicatest.Time("11:30:00"), namespace)
		if at := replicatest.Time("12:00:00"); !due.Equal(at) || next.Before(at) || !next.Before(at.Add(time.Minute)) {
			t.Errorf("due at %v, starts at %v", due, next)
		}
	}
	if due, next := p.Jobs["none"].Coming(time.Now(), ""); !due.IsZero() || !next.IsZero() {
		t.Errorf("a job without a schedule is due at %v", due)
	}
}
