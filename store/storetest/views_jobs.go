package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func viewJobs(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	load(t, b, a, ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("i", "1", "s"), JobDef("j", "1", "s"), JobDef("k", "1", "s")},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}},
	})
	second := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(1), Outcome: jobs.Ran, Result: jobs.StateSucceeded})
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(2), Outcome: jobs.Ran, Result: jobs.StateSucceeded})
	// A run by hand of the same moment ended later, and not well.
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(2), Seq: 1, Outcome: jobs.Ran, Result: jobs.StateFailed})
	b.DB.Exec(t, `UPDATE {triggers} SET finished_at = finished_at + 5 WHERE seq = 1`)
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(3), Outcome: jobs.Ran, Result: jobs.StateFailed})
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(3), Seq: 1})
	addTrigger(t, b, jobs.Trigger{Job: "k", At: second(9), Outcome: jobs.Missed})
	for _, e := range Enqueue(t, b, newTask("p"), newTask("p"), newTask("p")) {
		b.DB.Exec(t, `UPDATE {tasks} SET job = 'j' WHERE id = ?`, e.Task.ID)
	}
	orphan := Enqueue(t, b, newTask("p"), newTask("p"))[0].Task.ID
	b.DB.Exec(t, `UPDATE {tasks} SET job = 'removed' WHERE id = ?`, orphan) // of a job that has no row

	all, err := b.SQL().Sides().API.Jobs(t.Context())
	must(t, err)
	type short struct {
		Name        string
		Open        int
		LastAt      time.Time
		LastSeq     int
		LastSuccess time.Time
	}
	var got []short
	for _, j := range all {
		s := short{Name: j.Name, Open: j.Open, LastSuccess: j.LastSuccess}
		if j.Last != nil {
			s.LastAt, s.LastSeq = j.Last.At, j.Last.Seq
		}
		if j.Hash != "1" || j.Config != 1 || !j.NextAt.After(j.Cursor) || j.Suspended || j.Override != nil {
			t.Fatalf("%+v", j)
		}
		got = append(got, s)
	}
	want := []short{{Name: "i"}, {"j", 3, second(3), 1, second(2).Add(time.Microsecond)}, {Name: "k", LastAt: second(9)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	named, err := b.SQL().Sides().API.Jobs(t.Context(), "j", "nothing")
	must(t, err)
	if diff := cmp.Diff(all[1:2], named); diff != "" {
		t.Fatal(diff)
	}
}

func viewPools(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "empty", "p")
	old := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	all := Enqueue(t, b, jobs.NewTask{Pool: "p", RunAt: old, Priority: -5}, jobs.NewTask{Pool: "p", Priority: 5},
		jobs.NewTask{Pool: "p", RunAt: time.Now().Add(time.Hour)}, newTask("p"),
		jobs.NewTask{Pool: "p", RunAt: time.Now().Add(time.Hour)}, jobs.NewTask{Pool: "p", RunAt: time.Now().Add(time.Hour)})
	b.DB.Exec(t, `UPDATE {tasks} SET state = 2 WHERE id = ?`, all[3].Task.ID)
	pools, err := b.SQL().Sides().API.Pools(t.Context())
	must(t, err)
	want := []ledger.PoolStatus{{Name: "empty", Hash: "h"}, {Name: "p", Hash: "h", Pending: 2, Scheduled: 3, Running: 1, OldestPending: old}}
	if diff := cmp.Diff(want, pools); diff != "" {
		t.Fatal(diff)
	}
}

func viewOverrides(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	d := ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", "1", "s")}, Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}}}
	load(t, b, a, d)
	yes := true
	for _, override := range []*bool{&yes, &yes, nil} {
		must(t, b.SQL().Sides().API.SuspendJob(t.Context(), "j", "ann", override))
		must(t, b.SQL().Sides().API.PausePool(t.Context(), "p", "bob", override))
		js, err := b.SQL().Sides().API.Jobs(t.Context())
		must(t, err)
		ps, err := b.SQL().Sides().API.Pools(t.Context())
		must(t, err)
		got := fmt.Sprintf("%v %q %v %q", js[0].Suspended, js[0].SuspendedBy, ps[0].Paused != nil && *ps[0].Paused, ps[0].PausedBy)
		want := `true "ann" true "bob"`
		if override == nil {
			want = `false "" false ""`
		}
		if got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if err := b.SQL().Sides().API.SuspendJob(t.Context(), "J", "", &yes); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatal(err)
	}
	load(t, b, a, ledger.Definitions{})
	if err := b.SQL().Sides().API.PausePool(t.Context(), "p", "", &yes); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("a retired pool: %v", err)
	}
}
