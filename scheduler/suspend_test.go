package scheduler_test

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A suspended job is suspended by its definition or by the API, and what was skipped stays so.
func TestSuspendedJobsSkipTheirDueTimesForGood(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	ran := &starts{}
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: ran, Concurrency: jobs.Allow, Suspend: true}}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	decided := func() []jobs.Trigger { return ledgerOf(t, st, "j") }
	var changed changes
	override := func(suspended *bool, runs bool) (rows int) {
		t.Helper()
		before := len(decided())
		if err := st.Sides().API.SuspendJob(t.Context(), "j", "a test", suspended); err != nil {
			t.Fatal(err)
		}
		r.Wake()
		rows = len(decided())
		changed = append(changed, change{before, rows, runs})
		return rows
	}
	yes, no := true, false

	await.Until(t, "three due times are decided", func() bool { return len(decided()) >= 3 })
	override(&no, true)
	await.Until(t, "it runs", func() bool { return ran.count() >= 2 })
	suspended := override(&yes, false)
	await.Until(t, "two due times are decided", func() bool { return len(decided()) >= suspended+2 })
	reset := override(nil, false)
	await.Until(t, "two due times are decided by the definition", func() bool { return len(decided()) >= reset+2 })

	rows := decided()
	covered(t, rows)
	runs := 0
	for i, row := range rows {
		skipped := row.Outcome == jobs.Skipped && row.Reason == "suspended" && row.TaskID == ""
		if !skipped {
			runs++
		}
		if should, known := changed.runs(i); known && should == skipped {
			t.Errorf("row %d, changes %v: %+v", i, changed, row)
		}
	}
	await.Until(t, "what was to run has run", func() bool { return ran.count() >= runs })
	if ran.count() != runs {
		t.Errorf("%d ran, the ledger has %d", ran.count(), runs)
	}
	ran.onlyOnce(t)
}

// changes of the outcome of due times, by how many rows there were before and after each.
type changes []change

type change struct {
	before, after int
	runs          bool
}

// runs says whether the row with that index should run; not known for one decided beside a change.
func (all changes) runs(row int) (should, known bool) {
	for _, c := range all {
		if row >= c.before && row < c.after {
			return false, false
		}
		if row >= c.after {
			should = c.runs
		}
	}
	return should, true
}
