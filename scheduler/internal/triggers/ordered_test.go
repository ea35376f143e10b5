package triggers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// What one decision makes of several orders, and of due times beside them. Now is 12:00:10, and the job is due each second.
func TestOrdersBesideOthers(t *testing.T) {
	at := func(sec int) time.Time { return replicatest.Time("12:00:00").Add(time.Duration(sec) * time.Second) }
	run := func(id string, sec int) ledger.OrderState {
		return ledger.OrderState{Order: ledger.Order{ID: id, Job: "j", Kind: wire.OrderRun, State: wire.OrderOpen, NextAt: at(sec), Asked: ledger.Asked{At: at(sec)}}}
	}
	backfill := func(id string, from, to int, again bool) ledger.OrderState {
		o := ledger.Order{ID: id, Job: "j", Kind: wire.OrderBackfill, Asked: ledger.Asked{Backfill: &wire.NewBackfill{From: at(from), To: at(to), MaxRunning: 10, Again: again}}}
		o.Begin(at(9))
		return ledger.OrderState{Order: o}
	}
	running := jobs.Task{ID: "a", ScheduledAt: at(1), State: jobs.StateRunning, Pool: "default", Attempt: 1, Replica: "b", StartedAt: at(1), RunAt: at(1), CreatedAt: at(1)}
	for what, c := range map[string]struct {
		policy jobs.Concurrency
		state  ledger.JobState
		behind int // seconds that are due
		want   []string
		open   []string // orders, and how long until they are looked at
	}{
		"two backfills of the same days": {
			jobs.Allow, ledger.JobState{Orders: []ledger.OrderState{backfill("o1", 4, 6, false), backfill("o2", 4, 7, false)}}, 0,
			[]string{"04 runs", "05 runs", "06 runs"}, []string{"o1 1s", "o2 1s"},
		},
		"a backfill of what is decided beside it": {
			jobs.Allow, ledger.JobState{Orders: []ledger.OrderState{backfill("o1", 7, 10, false)}}, 2,
			[]string{"09 runs", "10 runs", "07 runs", "08 runs"}, []string{"o1 1s"},
		},
		"which is to run again": {
			jobs.Allow, ledger.JobState{Orders: []ledger.OrderState{backfill("o1", 8, 10, true)}}, 2,
			[]string{"09 runs", "10 runs", "08 runs", "09 runs"}, []string{"o1 1s"},
		},
		"replace, two runs": { // the second one replaces the first in the next decision
			jobs.Replace, ledger.JobState{Open: []jobs.Task{running}, Orders: []ledger.OrderState{run("o1", 9), run("o2", 9)}}, 0,
			[]string{"ends a replaced", "09 waits waits_for_slot"}, []string{"o2 0s"},
		},
		"replace, a run and a due time": {
			jobs.Replace, ledger.JobState{Orders: []ledger.OrderState{run("o1", 9)}}, 1,
			[]string{"10 runs"}, []string{"o1 0s"},
		},
		"replace, a run, and one that waits for the free slot": {
			jobs.Replace, ledger.JobState{Queued: []jobs.Task{{ID: "q", ScheduledAt: at(5), State: jobs.StatePending, Pool: "default", RunAt: at(5), CreatedAt: at(5)}}, Orders: []ledger.OrderState{run("o1", 9)}}, 0,
			[]string{"ends q replaced", "09 runs"}, nil,
		},
		"replace, a backfill and a run": { // which the run of the backfill would put off
			jobs.Replace, ledger.JobState{Orders: []ledger.OrderState{backfill("o1", 4, 5, false), run("o2", 9)}}, 0,
			[]string{"09 runs"}, []string{"o1 1s"},
		},
		"queue, two runs": {
			jobs.Queue, ledger.JobState{Open: []jobs.Task{running}, Orders: []ledger.OrderState{run("o1", 9), run("o2", 9)}}, 0,
			[]string{"09 waits waits_for_slot", "09 waits waits_for_slot"}, nil,
		},
		"forbid, two runs": {
			jobs.Forbid, ledger.JobState{Orders: []ledger.OrderState{run("o1", 9), run("o2", 9)}}, 0,
			[]string{"09 runs", "09 skipped " + string(reason.SlotTaken)}, nil,
		},
	} {
		t.Run(what, func(t *testing.T) {
			job := jobs.Job{Schedule: "* * * * * *", Handler: replicatest.Blocked{}, Concurrency: c.policy, CatchUp: jobs.CatchUp{Grace: 5 * time.Second}}
			p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": job}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			now := at(10)
			c.state.Name, c.state.Hash, c.state.Cursor = "j", p.Jobs["j"].Hash, now.Add(-time.Duration(c.behind)*time.Second)
			for i := range c.state.Orders {
				c.state.Orders[i].Asked.Schedule = p.Jobs["j"].ScheduleHash()
			}
			dec, _ := rules{plan: p, replica: "a", now: now, newID: func(_ string, n int) string { return fmt.Sprint("new", n) }}.decide(c.state)
			var open []string
			for _, o := range dec.Orders {
				if !o.NextAt.IsZero() {
					open = append(open, fmt.Sprint(o.ID, " ", o.NextAt.Sub(now)))
				}
			}
			if d := cmp.Diff(c.want, told(dec)) + cmp.Diff(c.open, open); d != "" {
				t.Error(d)
			}
		})
	}
}
