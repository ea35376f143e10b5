package plan

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// What runs a task elsewhere is known here as well: by the labels of other replicas, or by workers. What the configuration lacks is not.
func TestWhatRunsATaskAnywhere(t *testing.T) {
	p, err := New(jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}},
		Jobs:  map[string]jobs.Job{"elsewhere": {Handler: replicatest.Named("elsewhere"), RunsOn: map[string]string{"zone": "b"}}},
	}, map[string]string{"zone": "a"})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		task           jobs.Task
		here, anywhere bool
	}{
		"a job for other labels": {jobs.Task{Job: "elsewhere", Pool: "default"}, false, true},
		"a pool for workers":     {jobs.Task{Pool: "mail"}, false, true},
		"a job that is not here": {jobs.Task{Job: "other", Pool: "default"}, false, false},
		"a kind that is not":     {jobs.Task{Pool: "mail", Kind: "x"}, false, false},
	} {
		if _, here := p.Execution(c.task); here != c.here {
			t.Errorf("%s is run here: %v", what, here)
		}
		if _, anywhere := p.Anywhere(c.task); anywhere != c.anywhere {
			t.Errorf("%s is run anywhere: %v", what, anywhere)
		}
	}
}

// A pool limits the kinds that it names, for its own tasks alone.
func TestLimitsOfKinds(t *testing.T) {
	handler := replicatest.Named("any")
	p, err := New(jobs.Set{Pools: map[string]jobs.Pool{
		"p": {Kinds: map[string]jobs.Handler{"x": handler, "y": handler}, Timeout: time.Minute, PerKind: map[string]jobs.KindLimits{"x": {MaxRunning: 1}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]bool{"x": true, "y": false, "": false} {
		if got := p.LimitsKind(jobs.Task{Pool: "p", Kind: task}); got != want {
			t.Errorf("kind %q is limited: %v", task, got)
		}
	}
	if p.LimitsKind(jobs.Task{Pool: "p", Kind: "x", Job: "j"}) || p.LimitsKind(jobs.Task{Pool: "other", Kind: "x"}) {
		t.Error("a task of a job, or of another pool, is limited")
	}
}
