package scheduler_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A replica has at most Options.Workers attempts at once, whatever its pools would allow.
func TestWorkersAreALimitOverAllPools(t *testing.T) {
	t.Parallel()
	const workers = 3
	st := sqlite(t).open(t)
	var now, most atomic.Int64
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	})
	set := jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: workers}, "q": {Handler: h, Workers: workers}},
		Jobs:  map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h}},
	}
	r := start(t, st, nil, set, scheduler.Options{ID: "a", Workers: workers})
	await.Until(t, "the pools are known", func() bool {
		pools, err := st.Sides().API.Pools(t.Context())
		return err == nil && len(pools) == 3
	})
	var tasks []jobs.NewTask
	for range 60 {
		tasks = append(tasks, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "q"})
	}
	added, err := st.Enqueue(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	r.Wake("p", "q")
	for _, a := range added {
		ended(t, st, a.Task.ID)
	}
	if got := most.Load(); got != workers {
		t.Errorf("%d ran at once, want %d", got, workers)
	}
}
