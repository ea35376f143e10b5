package scheduler

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Tasks of a pool, and those of its jobs, run on replicas with its labels alone. Without such a replica they wait.
func TestPoolsRunWhereTheirLabelsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		var mu sync.Mutex
		ran := map[string]int{} // by replica and pool
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			mu.Lock()
			defer mu.Unlock()
			ran[task.Replica+" "+task.Pool]++
			return nil
		})
		set := jobs.Set{
			Pools: map[string]jobs.Pool{"here": {Handler: h, RunsOn: map[string]string{"zone": "a"}}, "any": {Handler: h}},
			Jobs: map[string]jobs.Job{
				"own":  {Pool: "here", Handler: h, Schedule: "*/5 * * * * *", EndsAt: time.Now().Add(time.Minute)},
				"pool": {Pool: "here", Schedule: "*/5 * * * * *", EndsAt: time.Now().Add(time.Minute)},
			},
		}
		away := runs(t, st, set, Options{ID: "b", Labels: map[string]string{"zone": "b"}})
		time.Sleep(time.Second)
		for range 20 {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "here"}, jobs.NewTask{Pool: "any"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if away.Runs("here", "") || !away.Runs("any", "") || ran["b any"] != 20 || len(ran) != 1 {
			t.Errorf("without a replica of the zone: %v", ran)
		}
		is := runs(t, st, set, Options{ID: "a", Labels: map[string]string{"zone": "a"}})
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if !is.Runs("here", "") || ran["a here"] < 20+2 || ran["b here"] != 0 {
			t.Errorf("with one: %v", ran)
		}
	})
}
