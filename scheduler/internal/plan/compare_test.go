package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// What a plan has otherwise is named, of jobs and of pools, but for texts for people.
func TestCompare(t *testing.T) {
	h := replicatest.Nothing{}
	before := must(t, jobs.Set{
		Jobs: map[string]jobs.Job{
			"gone-1": {Handler: h}, "gone-2": {Handler: h}, "same": {Handler: h, Schedule: "@daily"},
			"shown": {Handler: h}, "when": {Handler: h, Schedule: "@daily"}, "locked": {Handler: h, Locks: []jobs.Lock{{Key: "db"}}},
		},
		Pools: map[string]jobs.Pool{"gone": {Handler: h}, "same": {Handler: h}, "workers": {Handler: h}},
	})
	after := jobs.Set{
		Jobs: map[string]jobs.Job{
			"added-1": {Handler: h}, "added-2": {Handler: h}, "same": {Handler: h, Schedule: "@daily"},
			"shown": {Handler: h, Description: "for people"}, "when": {Handler: h, Schedule: "@hourly"}, "locked": {Handler: h, Locks: []jobs.Lock{{Key: "db"}}},
		},
		Pools: map[string]jobs.Pool{"added": {Handler: h}, "same": {Handler: h}, "workers": {Handler: h, Workers: 3}},
	}
	next, changes, err := before.Next(after, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Changes{
		Jobs:  wire.Changed{Added: []string{"added-1", "added-2"}, Changed: []string{"when"}, Removed: []string{"gone-1", "gone-2"}},
		Pools: wire.Changed{Added: []string{"added"}, Changed: []string{"workers"}, Removed: []string{"gone"}},
	}
	if diff := cmp.Diff([]wire.Changed{want.Jobs, want.Pools}, []wire.Changed{changes.Jobs, changes.Pools}); diff != "" {
		t.Error(diff)
	}
	if all := []string{"added-1", "added-2", "gone-1", "gone-2", "when"}; !slices.Equal(changes.Names(), all) {
		t.Errorf("it names %q, want %q", changes.Names(), all)
	}
	if !next.HasLocks() || next.WithLocks() != "jobs.locked" {
		t.Errorf("locks have %q", next.WithLocks())
	}
	delete(after.Jobs, "locked")
	last, changes, err := next.Next(after, nil)
	if err != nil || last.HasLocks() || last.WithLocks() != "" || !slices.Equal(changes.Names(), []string{"locked"}) {
		t.Errorf("locks have %q, changed has %q, %v", last.WithLocks(), changes.Names(), err)
	}
	if p := must(t, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Locks: []jobs.Lock{{Key: "db"}}}}}); !p.HasLocks() || p.WithLocks() != "pools.p" {
		t.Error("a pool's locks are none")
	}
}
