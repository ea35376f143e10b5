package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// decides decides about one job at 12:00:05, from a cursor, with a task that has the slot or none.
func decides(t *testing.T, j jobs.Job, cursor string, taken, room bool) (ledger.Decision, bool) {
	t.Helper()
	j.Handler = nothing{}
	p, err := newPlan(jobs.Set{Jobs: map[string]jobs.Job{"j": j}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := ledger.JobState{Name: "j", Hash: p.jobs["j"].hash, Cursor: clockTime(cursor)}
	if taken {
		state.Open = []ledger.OpenTask{{ID: "t1", State: jobs.StateRunning}}
	}
	return decider{
		plan: p, replica: "a", now: clockTime("12:00:05"),
		newID:  func(job string, n int) string { return fmt.Sprint(job, n) },
		claims: func(string) bool { return room },
	}.decide(state)
}

// What holds for due times that lie at a limit.
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
		"all: within the grace it is skipped while the slot is taken":      {with(second, jobs.CatchUpAll, 0), "12:00:04", true, []string{"12:00:05 skipped 1 schedule"}, "12:00:05"},
		"all: at the end of the grace it is not late":                      {with(second, jobs.CatchUpAll, 0), "12:00:02", true, []string{"12:00:03 skipped 1 schedule", "12:00:04 skipped 1 schedule", "12:00:05 skipped 1 schedule"}, "12:00:05"},
		"latest: a late one is skipped while the slot is taken":            {minute, "11:59:30", true, []string{"12:00:00 skipped 1 catch_up"}, "12:00:00"},
		"none: nothing late runs":                                          {with(minute, jobs.CatchUpNone, 0), "11:58:30", false, []string{"11:59:00..12:00:00 missed 2 catch_up"}, "12:00:00"},
		"a window shorter than the grace takes nothing from the grace":     {with(second, jobs.CatchUpLatest, time.Nanosecond), "12:00:01", false, []string{"12:00:02 missed 1 catch_up", "12:00:03 open schedule claimed", "12:00:04 skipped 1 schedule", "12:00:05 skipped 1 schedule"}, "12:00:05"},
		"at the beginning of the window it is not too old":                 {with(minute, jobs.CatchUpLatest, 5*time.Second), "11:58:30", false, []string{"11:59:00 missed 1 catch_up", "12:00:00 open catch_up claimed"}, "12:00:00"},
		"just before the window it is":                                     {with(minute, jobs.CatchUpLatest, 5*time.Second-1), "11:58:30", false, []string{"11:59:00..12:00:00 missed 2 catch_up"}, "12:00:00"},
		"a job that runs on demand has no due times":                       {onDemand, "11:00:00", false, nil, ""},
		"a due time at the cursor is decided, and the next one is not due": {minute, "12:00:00", false, nil, ""},
	} {
		dec, ok := decides(t, c.job, c.cursor, c.taken, true)
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
	if _, ok := (decider{plan: &plan{}}).decide(ledger.JobState{Name: "nobody's"}); ok {
		t.Error("decided a job that this replica does not know")
	}
}

// A task is born running only if this replica has room for it, and then its row says until when nobody may start in its
// place: until the next due time, or its timeout if that is sooner.
func TestWhatIsBornRunning(t *testing.T) {
	for what, c := range map[string]struct {
		timeout time.Duration
		room    bool
		until   string
	}{
		"with room":             {0, true, "12:01:00"},
		"with a timeout":        {10 * time.Second, true, "12:00:15"},
		"without room":          {0, false, ""},
		"timeout, without room": {10 * time.Second, false, ""},
	} {
		dec, _ := decides(t, jobs.Job{Schedule: "0 * * * * *", Timeout: c.timeout, CatchUp: jobs.CatchUp{Grace: time.Minute}}, "11:59:30", false, c.room)
		if len(dec.Triggers) != 1 {
			t.Fatalf("%s: %+v", what, dec)
		}
		o, until := dec.Triggers[0], ""
		if !o.MayRunUntil.IsZero() {
			until = o.MayRunUntil.Format("15:04:05")
		}
		if o.Claim != c.room || until != c.until {
			t.Errorf("%s: claimed: %v, may run until %q; want %v, %q", what, o.Claim, until, c.room, c.until)
		}
	}
}
