package scheduler

import (
	"context"
	"io"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A moment of @at runs its job once, whatever is restarted before, at and after it; while nothing ran it is caught up with. One that was past
// when the job was first loaded runs nothing, nor does what lies outside of the job's bounds.
func TestAMomentRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := time.Now()
		at := func(minutes time.Duration) string {
			return "@at " + epoch.Add(minutes*time.Minute).Format(time.RFC3339)
		}
		var (
			mu   sync.Mutex
			runs = map[string]int{}
		)
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			mu.Lock()
			defer mu.Unlock()
			runs[task.Job+" "+task.ScheduledAt.Sub(epoch).String()]++
			return nil
		})
		set := jobs.Set{Jobs: map[string]jobs.Job{
			"once":    {Schedule: at(10), Handler: h},
			"late":    {Schedule: at(30), Handler: h},
			"past":    {Schedule: at(-60), Handler: h},
			"several": {Schedules: []string{at(10), at(20), at(50), "@every 4h"}, Handler: h},
			"bounded": {Schedules: []string{at(10), at(20), at(50), "@every 4m"}, StartsAt: epoch.Add(20 * time.Minute), EndsAt: epoch.Add(24 * time.Minute), Handler: h},
		}}
		st := &memstore.Store{Database: memstore.New()}
		for _, phase := range []struct{ runs, rests time.Duration }{{5, 1}, {4, 0}, {2, 1}, {12, 10}, {1, 0}, {200, 0}} { // in minutes; none at 30
			s, err := newOn(st, nil, set, Options{ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			time.Sleep(phase.runs * time.Minute)
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			time.Sleep(phase.rests * time.Minute)
		}
		want := map[string]int{"once 10m0s": 1, "late 30m0s": 1, "several 10m0s": 1, "several 20m0s": 1, "several 50m0s": 1, "bounded 20m0s": 1}
		if !maps.Equal(runs, want) {
			t.Errorf("runs %v, want %v", runs, want)
		}
		all, err := st.Jobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range all {
			if !job.NextAt.IsZero() != (job.Name == "several") {
				t.Errorf("%s is due next at %v", job.Name, job.NextAt)
			}
		}
	})
}
