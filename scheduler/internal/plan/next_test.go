package plan

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func firstSet() jobs.Set {
	h := replicatest.Nothing{}
	return jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Handler: h, Kinds: map[string]jobs.Handler{"k": h}}},
		Jobs: map[string]jobs.Job{
			"kept":   {Schedule: "@daily", Handler: h, Payload: map[string]any{"n": 1}, Labels: map[string]string{"team": "infra"}},
			"edited": {Schedule: "@daily", Handler: h},
			"gone":   {Schedule: "@daily", Handler: h},
			"locked": {Pool: "p", Kind: "k", Locks: []jobs.Lock{{Key: "db"}}},
			"tells":  {Handler: h, Notify: jobs.Notify{Handler: h}},
		},
		Calendars: map[string]jobs.Calendar{"c": {Dates: []string{"2026-12-25"}}},
	}
}

// A plan that follows another one is what it would be by itself, and says what has changed. Jobs that are as they were are not compiled again where only jobs
// have changed. The maps of the set before may be those of the next one.
func TestNext(t *testing.T) {
	h := replicatest.Nothing{}
	for what, c := range map[string]struct {
		edit func(s *jobs.Set)
		anew bool // all jobs are compiled
	}{
		"nothing":            {func(*jobs.Set) {}, false},
		"a schedule":         {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "@hourly", Handler: h} }, false},
		"a default, written": {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "@daily", Handler: h, Timezone: "UTC"} }, false},
		"a text for people":  {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "@daily", Handler: h, Description: "x"} }, false},
		"a payload":          {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "@daily", Handler: h, Payload: 1} }, false},
		"a handler":          {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "@daily", Handler: jobs.Named("x", h)} }, false},
		"an added one":       {func(s *jobs.Set) { s.Jobs["a"] = jobs.Job{Handler: h} }, false},
		"a removed one":      {func(s *jobs.Set) { delete(s.Jobs, "gone") }, false},
		"locks of one less":  {func(s *jobs.Set) { delete(s.Jobs, "locked") }, false},
		"locks of one more":  {func(s *jobs.Set) { s.Jobs["a"] = jobs.Job{Handler: h, Locks: []jobs.Lock{{Key: "x"}}} }, false},
		"several": {func(s *jobs.Set) {
			delete(s.Jobs, "gone")
			s.Jobs["a"] = jobs.Job{Handler: h}
			s.Jobs["b"] = jobs.Job{Handler: h}
		}, false},
		"one that notifies":   {func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Handler: h, Notify: jobs.Notify{Handler: h}} }, true},
		"one that notified":   {func(s *jobs.Set) { delete(s.Jobs, "tells") }, true},
		"a pool":              {func(s *jobs.Set) { s.Pools["p"] = jobs.Pool{Workers: 7, Handler: h, Kinds: s.Pools["p"].Kinds} }, true},
		"an added pool":       {func(s *jobs.Set) { s.Pools["q"] = jobs.Pool{Handler: h} }, true},
		"a kind":              {func(s *jobs.Set) { s.Pools["p"].Kinds["l"] = h }, true},
		"a calendar":          {func(s *jobs.Set) { s.Calendars["c"] = jobs.Calendar{Dates: []string{"2026-12-26"}} }, true},
		"the name of the set": {func(s *jobs.Set) { s.Name = "x" }, true},
	} {
		set := firstSet()
		before, err := New(set, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.edit(&set)
		alone, err := New(set, nil)
		if err != nil {
			t.Fatal(err)
		}
		next, changes, err := before.Next(set, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shownOf(alone), shownOf(next)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		inJobs, inPools := alone.Compare(before)
		if diff := cmp.Diff([]any{inJobs, inPools}, []any{changes.Jobs, changes.Pools}); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if want := slices.Sorted(slices.Values(slices.Concat(inJobs.Added, inJobs.Changed, inJobs.Removed))); !slices.Equal(changes.Names(), want) {
			t.Errorf("%s: it names %q, want %q", what, changes.Names(), want)
		}
		if kept := next.Jobs["kept"] == before.Jobs["kept"]; kept == c.anew {
			t.Errorf("%s: a job that has not changed is the one before: %v", what, kept)
		}
		for name, j := range next.Jobs {
			if alone := alone.Jobs[name]; j.Description != alone.Description || len(j.locks) != len(alone.locks) || !j.Next(time.Time{}).Equal(alone.Next(time.Time{})) {
				t.Errorf("%s: job %s is %+v, want %+v", what, name, j, alone)
			}
		}
	}
}

// shownOf is what others see of a plan.
func shownOf(p *Plan) map[string]any {
	d := p.Definitions()
	for i := range d.Jobs {
		d.Jobs[i].Next, d.Jobs[i].Due = nil, nil
	}
	d.Shown, d.OvertakenBy, d.Now = nil, nil, nil
	return map[string]any{"definitions": d, "locks": p.HasLocks(), "with locks": p.WithLocks(), "jobs": slices.Sorted(maps.Keys(p.Jobs)), "set": len(p.Set.Jobs)}
}

// What is wrong with the next set is what New says of it, and the plan before stays as it is.
func TestNextIsChecked(t *testing.T) {
	for what, edit := range map[string]func(s *jobs.Set){
		"a schedule": func(s *jobs.Set) { s.Jobs["edited"] = jobs.Job{Schedule: "61 * * * *", Handler: replicatest.Nothing{}} },
		"a name":     func(s *jobs.Set) { s.Jobs["Kept"] = jobs.Job{Handler: replicatest.Nothing{}} },
		"a payload": func(s *jobs.Set) {
			s.Jobs["edited"] = jobs.Job{Handler: replicatest.Nothing{}, Payload: make(chan int)}
		},
		"a pool": func(s *jobs.Set) { delete(s.Pools, "p") },
	} {
		before, err := New(firstSet(), nil)
		if err != nil {
			t.Fatal(err)
		}
		was := maps.Clone(before.Jobs)
		set := firstSet()
		edit(&set)
		_, want := New(set, nil)
		_, _, got := before.Next(set, nil)
		if want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if !maps.Equal(was, before.Jobs) {
			t.Errorf("%s: the plan before has changed", what)
		}
	}
}
