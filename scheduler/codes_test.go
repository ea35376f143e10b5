package scheduler

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// exits is a handler whose failures have exit codes.
type exits struct{ replicatest.Function }

func (exits) Codes() (low, high, timeout int) { return 1, 255, 124 }

// A job and a task of a pool are retried after the codes that they list, and end at once after others.
func TestRetriesByCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := exits{func(_ context.Context, task jobs.Task, _ io.Writer) error {
			return &jobs.ExitError{Code: map[int]int{1: 75, 2: 1}[task.Attempt], Text: "failed"}
		}}
		retries := jobs.Retries{Limit: 5, Backoff: time.Second, MaxBackoff: time.Second, On: []int{75}}
		s := runs(t, st, jobs.Set{
			Pools: map[string]jobs.Pool{"p": {Handler: h, Retries: retries}},
			Jobs:  map[string]jobs.Job{"j": {Handler: h, Retries: retries, Schedule: "0 0 1 1 *"}},
		}, Options{ID: "a"})
		time.Sleep(time.Second)
		added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		_, ran, err := s.RunJob(t.Context(), "j", "me", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{added[0].ID, ran.ID} {
			task, _, err := st.Task(t.Context(), id)
			if err != nil || task.State != jobs.StateFailed || task.Attempt != 2 || task.ReasonCode != reason.NotRetried ||
				task.Reason != "failed; exit code 1 is not among what is retried: 75" || task.ExitCode == nil || *task.ExitCode != 1 {
				t.Errorf("%s, attempt %d, %s, %q, %v", task.State, task.Attempt, task.ReasonCode, task.Reason, err)
			}
		}
	})
}
