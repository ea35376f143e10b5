package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var jobStandingCases = []Case{
	{"JobStandings/Unmet", unmetDueTimes},
	{"JobStandings/First", firstUnmet},
	{"JobStandings/Retired", retiredStand},
	{"JobStandings/Many", manyUnmet},
}

func second(n int64) time.Time { return time.Unix(n, 0).UTC() }

func succeeded(t *testing.T, b *Bench, job string, at time.Time) {
	t.Helper()
	b.DB.Exec(t, `INSERT INTO {standings} (kind, name, failing, last_success_at, last_end_at) VALUES ('job', ?, 0, ?, ?)`, job, at.UnixMicro(), at.UnixMicro())
}

// suspendedAt adds the row of a due time at which the job was suspended; some are older than codes.
func suspendedAt(t *testing.T, b *Bench, job string, at time.Time) {
	t.Helper()
	addTrigger(t, b, jobs.Trigger{Job: job, At: at, Outcome: jobs.Skipped})
	says := `reason = 'on hold', reason_code = 'suspended'`
	if at.Unix()%20 == 0 {
		says = `reason = 'suspended'`
	}
	b.DB.Exec(t, `UPDATE {triggers} SET `+says+` WHERE job = ? AND at = ?`, job, at.UnixMicro())
}

func unmetDueTimes(t *testing.T, b *Bench) {
	names := []string{"failing", "fine", "never", "new", "old", "resumed", "waits"}
	d := ledger.Definitions{}
	for _, name := range names {
		d.Jobs = append(d.Jobs, JobDef(name, "1", "s"))
	}
	load(t, b, Join(t, b, "a"), d)
	ran := func(job string, at int64, result jobs.State) {
		addTrigger(t, b, jobs.Trigger{Job: job, At: second(at), Outcome: jobs.Ran, Result: result})
	}
	succeeded(t, b, "failing", second(15))
	b.DB.Exec(t, `UPDATE {standings} SET failing = 1`)
	for at := int64(10); at <= 50; at += 10 {
		ran("failing", at, jobs.StateFailed)
	}
	// The row of a job with the name of a pool is independent of the pool's.
	b.DB.Exec(t, `INSERT INTO {standings} (kind, name, failing, last_success_at, last_end_at) VALUES ('pool', 'fine', 1, 1, 1)`)
	succeeded(t, b, "fine", second(51))
	ran("fine", 50, jobs.StateSucceeded)
	addTrigger(t, b, jobs.Trigger{Job: "never", At: second(30), Outcome: jobs.Missed})
	ran("never", 40, jobs.StateFailed)
	// Before there were standings.
	ran("old", 10, jobs.StateSucceeded)
	ran("old", 20, jobs.StateFailed)
	// Due times under suspension want no success, nor does a run by hand.
	succeeded(t, b, "resumed", second(5))
	for at := int64(10); at <= 40; at += 10 {
		suspendedAt(t, b, "resumed", second(at))
	}
	addTrigger(t, b, jobs.Trigger{Job: "resumed", At: second(41), Seq: 1})
	succeeded(t, b, "waits", second(5))
	suspendedAt(t, b, "waits", second(10))
	addTrigger(t, b, jobs.Trigger{Job: "waits", At: second(20)})
	ran("waits", 30, jobs.StateFailed)

	b.DB.Exec(t, `UPDATE {jobs} SET cursor_at = ?, next_at = ?`, second(100).UnixMicro(), second(200).UnixMicro())
	got, err := b.SQL().Sides().API.JobStandings(t.Context())
	must(t, err)
	for i := range got {
		if !got[i].NextAt.Equal(second(200)) {
			t.Errorf("%s is due next at %v", got[i].Name, got[i].NextAt)
		}
		got[i].NextAt = time.Time{}
	}
	want := []ledger.JobStanding{
		{Name: "failing", Failing: true, LastSuccess: second(15), Unmet: second(20)},
		{Name: "fine", LastSuccess: second(51)},
		{Name: "never", Unmet: second(30)},
		{Name: "new"},
		{Name: "old", LastSuccess: second(10).Add(time.Microsecond), Unmet: second(20)},
		{Name: "resumed", LastSuccess: second(5)},
		{Name: "waits", LastSuccess: second(5), Unmet: second(20)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// firstUnmet: of each job it is the first due time since the last success that the job was not suspended at, however it came out.
func firstUnmet(t *testing.T, b *Bench) {
	d := ledger.Definitions{}
	names := []string{"i", "j", "k"}
	for _, name := range names {
		d.Jobs = append(d.Jobs, JobDef(name, "1", "s"))
	}
	load(t, b, Join(t, b, "a"), d)
	for _, first := range []jobs.Trigger{
		{Outcome: jobs.Ran, Result: jobs.StateFailed},
		{Outcome: jobs.Ran, Result: jobs.StateFailed, Reason: "suspended"}, // the task's own reason
		{Outcome: jobs.Skipped, Reason: "still running"},
		{},
	} {
		b.DB.Exec(t, `DELETE FROM {triggers}`)
		b.DB.Exec(t, `DELETE FROM {standings}`)
		for _, name := range names {
			succeeded(t, b, name, second(20))
			addTrigger(t, b, jobs.Trigger{Job: name, At: second(10), Outcome: jobs.Ran, Result: jobs.StateFailed})
			addTrigger(t, b, jobs.Trigger{Job: name, At: second(30), Seq: 1, Outcome: jobs.Ran, Result: jobs.StateFailed})
			suspendedAt(t, b, name, second(40))
			first.Job, first.At = name, second(50)
			addTrigger(t, b, first)
			addTrigger(t, b, jobs.Trigger{Job: name, At: second(60), Outcome: jobs.Missed})
		}
		got, err := b.SQL().Sides().API.JobStandings(t.Context())
		must(t, err)
		for _, j := range got {
			if !j.Unmet.Equal(second(50)) {
				t.Errorf("%s, first %q for %q: unmet since %v", j.Name, first.Outcome, first.Reason, j.Unmet)
			}
		}
		if len(got) != len(names) {
			t.Errorf("%d jobs", len(got))
		}
	}
}

func retiredStand(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	load(t, b, a, ledger.Definitions{Jobs: []ledger.JobDef{JobDef("i", "1", "s"), JobDef("j", "1", "s")}})
	load(t, b, a, ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", "1", "s")}})
	yes := true
	must(t, b.SQL().Sides().API.SuspendJob(t.Context(), "j", "ann", &yes))
	got, err := b.SQL().Sides().API.JobStandings(t.Context())
	must(t, err)
	if len(got) != 1 || got[0].Name != "j" || got[0].Suspended == nil || !*got[0].Suspended {
		t.Fatalf("%+v", got)
	}
}

// manyUnmet: more than one statement holds.
func manyUnmet(t *testing.T, b *Bench) {
	d := ledger.Definitions{}
	for i := range 250 {
		name := "j" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		d.Jobs = append(d.Jobs, JobDef(name, "1", "s"))
		addTrigger(t, b, jobs.Trigger{Job: name, At: second(int64(i + 1)), Outcome: jobs.Missed})
	}
	load(t, b, Join(t, b, "a"), d)
	got, err := b.SQL().Sides().API.JobStandings(t.Context())
	must(t, err)
	for i, j := range got {
		if !j.Unmet.Equal(second(int64(i + 1))) {
			t.Fatalf("%s: %v", j.Name, j.Unmet)
		}
	}
	if len(got) != 250 {
		t.Fatalf("%d jobs", len(got))
	}
}
