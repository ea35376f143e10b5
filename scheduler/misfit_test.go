package scheduler_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

type receipt struct{ Order int }

// A payload that does not fit its function fails the task at the first attempt, and the failure is notified.
func TestAPayloadThatDoesNotFitIsAFailure(t *testing.T) {
	st := sqlite(t).open(t)
	told := &inbox{}
	send := jobs.Func(func(context.Context, jobs.Task, receipt) error { t.Error("it ran"); return nil })
	set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {
		Kinds: map[string]jobs.Handler{"receipt": send}, Notify: jobs.Notify{Handler: told}, // and ten retries
	}}}
	var log bytes.Buffer // read after the replica has ended
	r := start(t, st, nil, set, scheduler.Options{ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	await.Until(t, "the pools are known", func() bool {
		pools, err := st.Sides().API.Pools(t.Context())
		return err == nil && len(pools) == 3
	})
	added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "receipt", Payload: "seven"})
	if err != nil {
		t.Fatal(err)
	}
	got := ended(t, st, added[0].Task.ID)
	const want = `not retried: the payload of kind "receipt" of pool "mail" does not fit scheduler_test.receipt: json: cannot unmarshal string`
	if got.State != jobs.StateFailed || got.Attempt != 1 || !strings.HasPrefix(got.Error, want) {
		t.Errorf("%s after %d attempts: %s", got.State, got.Attempt, got.Error)
	}
	if n := told.wants(t, "failed pool mail")[0]; !strings.Contains(n.Text, want) {
		t.Errorf("told was %q", n.Text)
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "task="+got.ID) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "does not fit") {
		t.Errorf("the log says %q", lines)
	}
}
