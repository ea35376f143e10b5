package scheduler_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

func TestDrainLetsWorkFinishAndHandsTheRestBack(t *testing.T) {
	st := sqlite(t).open(t)
	began, finish := make(chan struct{}, 10), make(chan struct{})
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.Workers = 1 }), scheduler.Options{ID: "a"})
	ids := enqueue(t, st, r, 3)
	<-began
	r.stop()
	until(t, "readiness says so", func() bool {
		h := r.Health()
		return !h[len(h)-1].Ready
	})
	close(finish)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	states := map[jobs.State]int{}
	for _, id := range ids {
		got := task(t, st, id)
		states[got.State]++
		if got.State == jobs.StatePending && got.Attempt != 0 {
			t.Errorf("a task that never started has attempt %d", got.Attempt)
		}
	}
	if states[jobs.StateSucceeded] != 1 || states[jobs.StatePending] != 2 {
		t.Errorf("states %v, want one succeeded and two pending", states)
	}
}

func TestDrainStopsWhatDoesNotEnd(t *testing.T) {
	for policy, want := range map[jobs.OnLost]jobs.State{jobs.LostFails: jobs.StateLost, jobs.LostRetries: jobs.StatePending} {
		t.Run(string(policy), func(t *testing.T) {
			st := sqlite(t).open(t)
			began := make(chan struct{}, 1)
			h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				began <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.OnLost = policy }), scheduler.Options{ID: "a", DrainTimeout: 50 * time.Millisecond})
			id := enqueue(t, st, r, 1)[0]
			<-began
			if err := r.drain(); err != nil {
				t.Fatal(err)
			}
			if got := task(t, st, id); got.State != want || !strings.Contains(got.Reason, "drained") {
				t.Errorf("%s, reason %q; want %s, drained", got.State, got.Reason, want)
			}
		})
	}
}
