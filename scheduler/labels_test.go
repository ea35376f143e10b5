package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Both replicas decide due times; only the one with the labels runs the tasks.
func TestOnlyReplicasWithTheLabelsRunAJob(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	var mu sync.Mutex
	ranOn := map[string]string{} // idempotency key to replica
	h := does(func(_ context.Context, task jobs.Task, _ io.Writer) error {
		mu.Lock()
		defer mu.Unlock()
		ranOn[task.IdempotencyKey] = task.Replica
		return nil
	})
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for n := range 8 {
		set.Jobs[fmt.Sprint("job-", n)] = jobs.Job{Schedule: "* * * * * *", Handler: h, RunsOn: map[string]string{"zone": "b"}}
	}
	start(t, db.open(t), nil, set, scheduler.Options{ID: "a", Labels: map[string]string{"zone": "a"}})
	start(t, db.open(t), nil, set, scheduler.Options{ID: "b", Labels: map[string]string{"zone": "b", "rack": "1"}})
	st := db.open(t)
	await.Until(t, "runs that either of them decided have ended", func() bool {
		by := map[string]int{}
		for _, row := range ledgerOf(t, st, "") {
			if row.Outcome == jobs.Ran {
				by[row.Replica]++
			}
		}
		return by["a"] >= 8 && by["b"] >= 8
	})
	mu.Lock()
	defer mu.Unlock()
	for key, replica := range ranOn {
		if replica != "b" {
			t.Errorf("%s ran on %s", key, replica)
		}
	}
}
