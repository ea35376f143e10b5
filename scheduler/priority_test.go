package scheduler

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// The tasks of a job have its priority, whatever made them, and where they wait they start before older ones with a smaller one. A task that waits for
// its retry keeps it.
func TestTasksHaveThePriorityOfTheirJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		var (
			mu    sync.Mutex
			order []string
		)
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			what := task.Job
			if what == "" {
				what = string(task.Payload)
			}
			mu.Lock()
			order = append(order, what)
			mu.Unlock()
			time.Sleep(10 * time.Second)
			if task.Job == "fails" && task.Attempt == 1 {
				return context.Canceled
			}
			return nil
		})
		s := runs(t, st, jobs.Set{
			Pools: map[string]jobs.Pool{"p": {Workers: 1, Handler: h}},
			Jobs: map[string]jobs.Job{
				"urgent": {Pool: "p", Schedule: "5 * * * * *", Priority: 5, EndsAt: time.Now().Add(time.Minute)},
				"plain":  {Pool: "p", Schedule: "4 * * * * *", EndsAt: time.Now().Add(time.Minute)},
				"later":  {Pool: "p", Schedule: "3 * * * * *", EndsAt: time.Now().Add(time.Minute), Priority: -1},
				"fails":  {Pool: "p", Priority: 7, Retries: jobs.Retries{Limit: 1, Backoff: time.Second}},
			},
		}, Options{ID: "a"})
		time.Sleep(time.Second) // time begins at a full minute
		for _, payload := range []string{"1", "2"} {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Payload: json.RawMessage(payload)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		_, byHand, err := s.RunJob(t.Context(), "fails", "me", "")
		if err != nil || byHand.Priority != 7 {
			t.Fatalf("by hand: %d, %v", byHand.Priority, err)
		}
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, " "); got != "1 fails urgent fails 2 plain later" {
			t.Errorf("in this order: %s", got)
		}
		if task, _, err := st.Task(t.Context(), byHand.ID); err != nil || task.State != jobs.StateSucceeded || task.Attempt != 2 || task.Priority != 7 {
			t.Errorf("%s, attempt %d, priority %d, %v", task.State, task.Attempt, task.Priority, err)
		}
		if again, err := s.Retry(t.Context(), byHand.ID, "me", ""); err != nil || again.Priority != 7 {
			t.Errorf("retried by hand: priority %d, %v", again.Priority, err)
		}
	})
}
