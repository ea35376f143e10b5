package page_test

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What waits for nobody is a finding above all else, and a row of what went wrong: tasks of a kind without a handler, and
// a job whose labels no live replica has.
func TestWhatWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{
		Jobs:  map[string]jobs.Job{"report": {Handler: does(fine), RunsOn: map[string]string{"zone": "b"}}},
		Pools: map[string]jobs.Pool{"mail": {Kinds: map[string]jobs.Handler{"welcome": does(fine)}}},
	}, api.Options{})
	b := newTab(t, 1200)
	b.visit(s.url)
	b.says("#headline", "All is well")

	for range 2 {
		if _, err := s.store.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "welcom", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	b.says("#headline", "Something is wrong")
	b.says("#findings", `mail: 2 tasks wait for nobody: no live replica has kind "welcom" in the pool`)
	b.says("#trouble", "mail / welcom")
	b.says("#trouble", "unrunnable")
	b.says("#trouble", "2 tasks")

	_, task, err := s.replica.RunJob(t.Context(), "report", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	b.says("#headline", "2 things are wrong")
	b.says("#findings", "report: a task waits for nobody: no live replica has the labels that the job runs on (zone=b)")
	b.visit(s.url + "jobs/report")
	b.says("#headline", "No live replica runs it")
	b.says("#facts", "no live replica has the labels that the job runs on (zone=b)")

	// What is cancelled waits no longer.
	if _, err := s.store.CancelTask(t.Context(), task.ID, "test"); err != nil {
		t.Fatal(err)
	}
	b.visit(s.url)
	b.says("#headline", "Something is wrong")
}
