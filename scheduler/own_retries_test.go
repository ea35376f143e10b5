package scheduler

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A task is attempted as often, as long and as far apart as it says itself, be that more or less than its pool has; the others are as the pool
// says.
func TestATaskHasRetriesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := replicatest.Function(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
			if task.Priority > 0 {
				return errors.New("not now")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {
			Handler: h, Timeout: time.Minute, Retries: jobs.Retries{Limit: 2, Backoff: 10 * time.Second, MaxBackoff: 40 * time.Second},
		}}}, Options{ID: "a"})
		time.Sleep(time.Second)
		for what, c := range map[string]struct {
			task         jobs.NewTask
			attempts     int
			after, least time.Duration // of the end
		}{
			"as the pool says":           {jobs.NewTask{Priority: 1}, 3, 40 * time.Second, 22 * time.Second}, // 10 and 20 s, a fifth more or less
			"more attempts":              {jobs.NewTask{Priority: 1, MaxAttempts: 5}, 5, 140 * time.Second, 80 * time.Second},
			"one attempt":                {jobs.NewTask{Priority: 1, MaxAttempts: 1}, 1, 2 * time.Second, 0},
			"a short backoff":            {jobs.NewTask{Priority: 1, Backoff: time.Second}, 3, 6 * time.Second, 2 * time.Second},
			"a backoff above the pool's": {jobs.NewTask{Priority: 1, Backoff: 5 * time.Minute}, 3, 13 * time.Minute, 8 * time.Minute},
			"the pool's timeout":         {jobs.NewTask{MaxAttempts: 1}, 1, 62 * time.Second, 60 * time.Second},
			"a timeout below the pool's": {jobs.NewTask{MaxAttempts: 1, Timeout: 2 * time.Second}, 1, 4 * time.Second, 2 * time.Second},
			"a timeout above the pool's": {jobs.NewTask{MaxAttempts: 1, Timeout: 3 * time.Minute}, 1, 182 * time.Second, 180 * time.Second},
			"a timeout of each attempt":  {jobs.NewTask{MaxAttempts: 2, Timeout: 3 * time.Minute, Backoff: time.Second}, 2, 364 * time.Second, 360 * time.Second},
		} {
			c.task.Pool = "p"
			added, err := st.Enqueue(t.Context(), c.task)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			time.Sleep(20 * time.Minute)
			task, _, err := st.Task(t.Context(), added[0].ID)
			took := task.FinishedAt.Sub(began)
			if err != nil || task.State != jobs.StateFailed || task.Attempt != c.attempts || took < c.least || took > c.after {
				t.Errorf("%s: %s after %v, attempt %d of %d, %v", what, task.State, took, task.Attempt, task.MaxAttempts, err)
			}
			if c.task.Priority == 0 && task.ReasonCode != reason.Timeout {
				t.Errorf("%s: %s", what, task.ReasonCode)
			}
		}
	})
}
