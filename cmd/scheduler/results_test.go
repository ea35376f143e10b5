package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestProgressAndResult: a task that runs shows how far it has come, and one that has ended its result, to who waits for it too.
func TestProgressAndResult(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	type answer struct {
		code           int
		stdout, stderr string
	}
	waited := make(chan answer, 1)
	go func() {
		code, stdout, stderr := r.scheduler(t, "", "tasks", "enqueue", "mail", "--kind", "counts", "--wait")
		waited <- answer{code, stdout, stderr}
	}()
	var id string
	await.Until(t, "the progress is shown", func() bool {
		for _, task := range decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "-o", "json")) {
			id = task.ID
			return task.ProgressDone != nil
		}
		return false
	})
	if got := r.fine(t, "tasks", "get", id); !strings.Contains(strings.Join(strings.Fields(got), " "), " progress: 40%, two of five ") || strings.Contains(got, "result") {
		t.Error(got)
	}
	c, err := client.New(r.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	ended, err := c.Follow(t.Context(), id, func(task wire.Task) error {
		if seen = append(seen, progress(task.Task)); task.ProgressDone != nil && len(seen) == 1 {
			close(r.release)
		}
		return nil
	})
	if err != nil || string(ended.Result) != `{"sent":3}` || seen[0] != "task "+id+": attempt 1 runs on r1, 40%, two of five" {
		t.Errorf("followed: %v, %v, result %s", err, seen, ended.Result)
	}
	got := <-waited
	if got.code != exitFine || got.stdout != "counted\n" ||
		!strings.HasSuffix(got.stderr, "task "+id+": succeeded\ntask "+id+`: result {"sent":3}`+"\n") {
		t.Errorf("%+v", got)
	}
	if got := r.fine(t, "tasks", "get", id); !strings.Contains(got, `{"sent":3}`) || strings.Contains(got, "progress") {
		t.Error(got)
	}
	code, stdout, stderr := r.scheduler(t, "", "tasks", "enqueue", "mail", "--kind", "counts", "--wait", "-o", "json")
	if task := decodeJSON[wire.Task](t, stdout); code != exitFine || !strings.Contains(strings.Join(strings.Fields(string(task.Result)), ""), `{"sent":3}`) || strings.Contains(stderr, "result") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	for done, want := range map[float64]string{0: "0%", 0.4: "40%", 0.123456: "12.3%", 0.9999: "99.9%", 1: "100%", 0.29: "29%"} {
		if got := progressOf(jobs.Task{ProgressDone: &done}); got != want {
			t.Errorf("%v is shown as %s, want %s", done, got, want)
		}
	}
}
