package embedding

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// retryFailed enqueues each failed task of a pool again.
func retryFailed(ctx context.Context, st *store.Store, pool string) (retried int, err error) {
	filter := wire.TaskFilter{Pool: pool, State: jobs.StateFailed}
	for {
		tasks, next, err := st.Tasks(ctx, filter)
		if err != nil {
			return retried, err
		}
		for _, t := range tasks {
			if _, err := st.Retry(ctx, t.ID, "shop", false); err != nil {
				return retried, err
			}
			retried++
		}
		if next == "" {
			return retried, nil
		}
		filter.Cursor = next
	}
}

// What failed is done when its cause is gone, page by page.
func TestRetryFailed(t *testing.T) {
	_, st := database(t)
	var up atomic.Bool
	replica, err := scheduler.New(st, nil, jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Func(func(context.Context, jobs.Task, Letter) error {
			if !up.Load() {
				return jobs.Permanent(errors.New("the mail server is down"))
			}
			return nil
		})}},
	}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, replica)
	await.Until(t, "the definitions are loaded", replica.Loaded)
	ended := func(state jobs.State) int {
		n, filter := 0, wire.TaskFilter{Pool: "mail", State: state}
		for {
			tasks, next, err := st.Tasks(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				if n++; state == jobs.StateSucceeded && (task.By != "shop" || task.RetryOf == "") {
					t.Errorf("%+v", task)
				}
			}
			if filter.Cursor = next; next == "" {
				return n
			}
		}
	}
	const n = 60 // more than a page
	letters := make([]jobs.NewTask, n)
	for i := range letters {
		letters[i] = jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}}
	}
	if _, err := st.Enqueue(t.Context(), letters...); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all have failed", func() bool { return ended(jobs.StateFailed) == n })
	up.Store(true)
	if retried, err := retryFailed(t.Context(), st, "mail"); retried != n || err != nil {
		t.Errorf("%d retried: %v", retried, err)
	}
	await.Until(t, "all have succeeded", func() bool { return ended(jobs.StateSucceeded) == n })
}
