package scheduler_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// A handler that ignores its context goes on in a program that outlives Run. Nothing starts in its place before
// its bound, as if its replica had lost the store.
func TestNothingStartsBesideWorkThatIsLeftBehind(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	bounds, again, end := make(chan *bound.Bound, 1), make(chan struct{}), make(chan struct{})
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		if task.Attempt > 1 {
			close(again)
			return nil
		}
		bounds <- bound.Of(ctx)
		<-end
		return nil
	})
	defer close(end)
	set := pool(h, func(p *jobs.Pool) { p.OnLost = jobs.LostRetries })
	st := db.open(t)
	const ttl = 2 * time.Second
	a := start(t, st, nil, set, scheduler.Options{ID: "a", SessionTTL: ttl, DrainTimeout: 10 * time.Millisecond, StopGrace: 10 * time.Millisecond})
	enqueue(t, st, a, 1)
	bound := <-bounds
	start(t, db.open(t), nil, set, scheduler.Options{ID: "b", SessionTTL: ttl})
	if err := a.drain(); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Fatalf("got %v, want it to name what still runs", err)
	}
	<-again
	if left := bound.Left(); left > 0 {
		t.Errorf("it was started again when the first attempt had %v left", left)
	}
}
