package triggers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// told is a decision as one line for each task and due time: what starts, what ends with its code, and what becomes of each due time.
func told(dec ledger.Decision) (lines []string) {
	for _, id := range dec.Starts {
		lines = append(lines, "starts "+id)
	}
	for _, e := range dec.Ends {
		lines = append(lines, "ends "+e.Task+" "+string(e.Code))
	}
	for _, o := range dec.Triggers {
		what := string(o.Trigger.Outcome) + " " + string(o.Trigger.ReasonCode)
		if o.Task != nil {
			if what = "runs"; o.Queued {
				what = "waits " + string(o.Task.ReasonCode)
			}
		}
		at := o.Trigger.At.Format("05")
		if o.Trigger.Count > 1 {
			at += "-" + o.Trigger.Until.Format("05")
		}
		lines = append(lines, at+" "+what)
	}
	return lines
}

// What becomes of due times and of runs that wait, by policy, slots and what is open. Now is 12:00:10, and the job is due each second.
func TestSlots(t *testing.T) {
	at := func(sec int) time.Time { return replicatest.Time("12:00:00").Add(time.Duration(sec) * time.Second) }
	running := func(id string, sec int) jobs.Task {
		return jobs.Task{ID: id, ScheduledAt: at(sec), State: jobs.StateRunning, Pool: "default", Attempt: 1, Replica: "b", StartedAt: at(sec), RunAt: at(sec), CreatedAt: at(sec)}
	}
	pending := func(id string, sec int) jobs.Task {
		task := running(id, sec)
		task.State, task.Attempt, task.Replica, task.StartedAt = jobs.StatePending, 0, "", time.Time{}
		return task
	}
	byHand := func(id string, sec int) jobs.Task {
		task := pending(id, sec)
		task.Seq = 1
		return task
	}
	retry := func(id string, sec, first int) jobs.Task {
		task := pending(id, first)
		task.RetryOf, task.CreatedAt = "x", at(sec)
		return task
	}
	lost := func(id string, until int) ledger.LostTask {
		return ledger.LostTask{ID: id, ScheduledAt: at(1), Replica: "b", At: at(2), Until: at(until)}
	}
	again := func(id string, until int) jobs.Task { // an attempt was lost, and the next one starts when that must have ended
		task := pending(id, 1)
		task.Attempt, task.RunAt, task.ReasonCode = 1, at(until), reason.ReplicaDied
		return task
	}
	type state = ledger.JobState
	yes := true
	for what, c := range map[string]struct {
		job     jobs.Job
		state   state
		behind  int // seconds that are due
		want    []string
		waiting bool
	}{
		"forbid, free":                        {jobs.Job{}, state{}, 2, []string{"09 runs", "10 skipped slot_taken"}, false},
		"forbid, two slots, both free":        {jobs.Job{MaxRunning: 2}, state{}, 3, []string{"08 runs", "09 runs", "10 skipped slot_taken"}, false},
		"forbid, two slots, one free":         {jobs.Job{MaxRunning: 2}, state{Open: []jobs.Task{running("a", 1)}}, 2, []string{"09 runs", "10 skipped slot_taken"}, false},
		"forbid, two slots, one lost":         {jobs.Job{MaxRunning: 2}, state{BusyUntil: at(20), Lost: []ledger.LostTask{lost("l", 20)}}, 2, []string{"09 runs", "10 skipped slot_taken"}, false},
		"forbid, two slots, both lost":        {jobs.Job{MaxRunning: 2}, state{BusyUntil: at(20), Lost: []ledger.LostTask{lost("l", 20), lost("m", 15)}}, 1, []string{"10 skipped lost_may_run"}, false},
		"forbid, two slots, an unknown loss":  {jobs.Job{MaxRunning: 2}, state{BusyUntil: at(20), Lost: []ledger.LostTask{lost("l", 15)}}, 1, []string{"10 skipped lost_may_run"}, false},
		"forbid, two slots, lost and retried": {jobs.Job{MaxRunning: 2}, state{BusyUntil: at(20), Open: []jobs.Task{again("a", 20)}}, 1, []string{"10 runs"}, false},
		"forbid, fewer slots than before":     {jobs.Job{MaxRunning: 2}, state{Open: []jobs.Task{running("a", 1), running("b", 2), running("c", 3)}}, 1, []string{"10 skipped slot_taken"}, false},
		"forbid, one still waits":             {jobs.Job{}, state{Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"starts q", "10 skipped slot_taken"}, false},
		"allow, one still waits":              {jobs.Job{Concurrency: jobs.Allow}, state{Open: []jobs.Task{running("a", 1)}, Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"starts q", "10 runs"}, false},

		"queue, free":                  {jobs.Job{Concurrency: jobs.Queue}, state{}, 2, []string{"09 runs", "10 waits waits_for_slot"}, true},
		"queue, taken":                 {jobs.Job{Concurrency: jobs.Queue}, state{Open: []jobs.Task{running("a", 1)}}, 1, []string{"10 waits waits_for_slot"}, true},
		"queue, full":                  {jobs.Job{Concurrency: jobs.Queue, QueueLimit: 2}, state{Open: []jobs.Task{running("a", 1)}, Queued: []jobs.Task{pending("q", 5)}}, 3, []string{"08 waits waits_for_slot", "09 skipped queue_full", "10 skipped queue_full"}, true},
		"queue, one gets the slot":     {jobs.Job{Concurrency: jobs.Queue, QueueLimit: 2}, state{Queued: []jobs.Task{pending("q", 5), pending("p", 6)}}, 2, []string{"starts q", "09 waits waits_for_slot", "10 skipped queue_full"}, true},
		"queue, in due order":          {jobs.Job{Concurrency: jobs.Queue, MaxRunning: 4}, state{Queued: []jobs.Task{pending("a", 5), byHand("b", 4), pending("c", 4), retry("d", 6, 1), pending("e", 7)}}, 0, []string{"starts c", "starts b", "starts a", "starts d"}, true},
		"queue, the last gets a slot":  {jobs.Job{Concurrency: jobs.Queue}, state{Queued: []jobs.Task{pending("q", 5)}}, 0, []string{"starts q"}, false},
		"queue, a lost attempt":        {jobs.Job{Concurrency: jobs.Queue}, state{BusyUntil: at(20), Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"10 waits waits_for_slot"}, true},
		"queue, nothing new":           {jobs.Job{Concurrency: jobs.Queue}, state{Open: []jobs.Task{running("a", 1)}, Queued: []jobs.Task{pending("q", 5)}}, 0, nil, true},
		"queue, suspended":             {jobs.Job{Concurrency: jobs.Queue}, state{Suspension: ledger.Suspension{Suspended: &yes}, Open: []jobs.Task{running("a", 1)}, Queued: []jobs.Task{pending("q", 5), byHand("h", 6), retry("r", 7, 1)}}, 2, []string{"ends q suspended", "09-10 skipped suspended"}, true},
		"queue, suspended, free":       {jobs.Job{Concurrency: jobs.Queue}, state{Suspension: ledger.Suspension{Suspended: &yes}, Queued: []jobs.Task{pending("q", 5), byHand("h", 6)}}, 0, []string{"starts h", "ends q suspended"}, false},
		"queue and all, full and late": {jobs.Job{Concurrency: jobs.Queue, QueueLimit: 1, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll, Limit: 10, Window: time.Hour, Grace: time.Nanosecond}}, state{Open: []jobs.Task{running("a", 1)}}, 3, []string{"08 waits waits_for_slot"}, true},

		"replace, free":                     {jobs.Job{Concurrency: jobs.Replace}, state{}, 2, []string{"09 skipped replaced", "10 runs"}, false},
		"replace, running":                  {jobs.Job{Concurrency: jobs.Replace}, state{Open: []jobs.Task{running("a", 1)}}, 1, []string{"ends a replaced", "10 waits waits_for_slot"}, true},
		"replace, pending":                  {jobs.Job{Concurrency: jobs.Replace}, state{Open: []jobs.Task{pending("a", 1)}}, 2, []string{"ends a replaced", "09 skipped replaced", "10 runs"}, false},
		"replace, lost and retried":         {jobs.Job{Concurrency: jobs.Replace}, state{BusyUntil: at(20), Open: []jobs.Task{again("a", 20)}}, 1, []string{"ends a replaced", "10 waits waits_for_slot"}, true},
		"replace, retried, lost long ago":   {jobs.Job{Concurrency: jobs.Replace}, state{Open: []jobs.Task{again("a", 9)}}, 1, []string{"ends a replaced", "10 runs"}, false},
		"replace, told to stop":             {jobs.Job{Concurrency: jobs.Replace}, state{Open: []jobs.Task{running("a", 1)}, Stopping: []string{"a"}}, 1, []string{"10 waits waits_for_slot"}, true},
		"replace, one waits":                {jobs.Job{Concurrency: jobs.Replace}, state{Open: []jobs.Task{running("a", 1)}, Stopping: []string{"a"}, Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"ends q replaced", "10 waits waits_for_slot"}, true},
		"replace, one waits, the slot free": {jobs.Job{Concurrency: jobs.Replace}, state{Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"ends q replaced", "10 runs"}, false},
		"replace, nothing new":              {jobs.Job{Concurrency: jobs.Replace}, state{Queued: []jobs.Task{pending("q", 5)}}, 0, []string{"starts q"}, false},
		"replace, the oldest of two":        {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{Open: []jobs.Task{running("a", 2), running("b", 1)}}, 1, []string{"ends b replaced", "10 waits waits_for_slot"}, true},
		"replace, one of two ends":          {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{Open: []jobs.Task{running("a", 2), running("b", 1)}, Stopping: []string{"a"}}, 1, []string{"10 waits waits_for_slot"}, true},
		"replace, one of two is lost":       {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{Open: []jobs.Task{running("a", 2)}, BusyUntil: at(20), Lost: []ledger.LostTask{lost("l", 20)}}, 1, []string{"10 waits waits_for_slot"}, true},
		"replace, two slots, one free":      {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{Open: []jobs.Task{running("a", 2)}, Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"ends q replaced", "10 runs"}, false},
		"replace, two slots, both free":     {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{Queued: []jobs.Task{pending("q", 5)}}, 1, []string{"starts q", "10 runs"}, false},
		"replace, three due, two slots":     {jobs.Job{Concurrency: jobs.Replace, MaxRunning: 2}, state{}, 3, []string{"08 skipped replaced", "09 runs", "10 runs"}, false},
		"replace, late ones of policy all":  {jobs.Job{Concurrency: jobs.Replace, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll, Limit: 10, Window: time.Hour, Grace: time.Nanosecond}}, state{Open: []jobs.Task{running("a", 1)}}, 3, []string{"ends a replaced", "08 skipped replaced", "09 skipped replaced", "10 waits waits_for_slot"}, true},
	} {
		t.Run(what, func(t *testing.T) {
			now := at(10)
			c.job.Schedule, c.job.Handler = "* * * * * *", replicatest.Blocked{}
			p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.state.Name, c.state.Hash, c.state.Cursor = "j", p.Jobs["j"].Hash, now.Add(-time.Duration(c.behind)*time.Second)
			if slices.ContainsFunc(c.state.Lost, func(l ledger.LostTask) bool { return l.Until.After(c.state.BusyUntil) }) {
				t.Fatal("a lost attempt may run longer than the job is busy")
			}
			dec, ok := rules{plan: p, replica: "a", now: now, newID: func(_ string, n int) string { return fmt.Sprint("new", n) }}.decide(c.state)
			if d := cmp.Diff(c.want, told(dec)); d != "" || !ok {
				t.Errorf("%t %s", ok, d)
			}
			if waiting := !dec.Waiting.IsZero(); waiting != c.waiting {
				t.Errorf("something waits: %t, want %t", waiting, c.waiting)
			}
			if waits := !dec.Waiting.IsZero() && !dec.Cursor.Before(now); waits && (dec.NextAt.Sub(now) != time.Second || !shownDue(dec).Equal(at(11))) {
				t.Errorf("it is looked at %v later, and %v is shown", dec.NextAt.Sub(now), shownDue(dec))
			}
			for _, o := range dec.Triggers {
				if o.Queued && !strings.HasPrefix(o.Task.Reason, "waits for a slot of its job: ") || o.Trigger.Outcome != "" && o.Trigger.Reason == "" {
					t.Errorf("%+v says nothing of why: %+v", o.Trigger, o.Task)
				}
			}
			for _, e := range dec.Ends {
				if e.Code == reason.Replaced && !strings.HasPrefix(e.Reason, "replaced by the run of 2026-03-01T12:00:10Z (task new") || ledger.CancelCode(e.Reason) != reason.Replaced && e.Code == reason.Replaced {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

func shownDue(dec ledger.Decision) time.Time {
	at, _ := ledger.Undecided(dec.Cursor, dec.Due, dec.NextAt, dec.Waiting)
	return at
}
