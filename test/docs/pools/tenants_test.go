package pools

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

func allOf(pool string) wire.TaskFilter {
	return wire.TaskFilter{Pool: pool, Page: wire.Page{Limit: 500}}
}

func imports(run jobs.Handler) jobs.Pool {
	return jobs.Pool{
		MaxRunning: 4,
		PerKey:     jobs.KeyLimits{MaxRunning: 2},                      // none has all places
		Fair:       &jobs.Fair{Weights: map[string]int{"tenant-1": 3}}, // none waits until another has no tasks left
		Handler:    run,
	}
}

func enqueueImport(ctx context.Context, st *store.Store, tenant string, file string) error {
	_, err := st.Enqueue(ctx, jobs.NewTask{Pool: "imports", Key: tenant, Payload: file})
	return err
}

// drained is the order in which tasks of tenant-1 and tenant-2 started, 60 of the one and then 20 of the other, and how many of
// tenant-1 ran at once.
func drained(t *testing.T, change func(*jobs.Pool)) (starts []string, most int) {
	t.Helper()
	_, st := database(t)
	var mu sync.Mutex
	running := 0
	pool := imports(jobs.Func(func(_ context.Context, task jobs.Task, _ string) error {
		mu.Lock()
		starts = append(starts, task.Key)
		if task.Key == "tenant-1" {
			running++
			most = max(most, running)
		}
		mu.Unlock()
		time.Sleep(2 * time.Millisecond) // the work
		mu.Lock()
		defer mu.Unlock()
		if task.Key == "tenant-1" {
			running--
		}
		return nil
	}))
	change(&pool)
	set := jobs.Set{Pools: map[string]jobs.Pool{"imports": pool}}
	if err := st.AddPools(t.Context(), set.Pools); err != nil {
		t.Fatal(err)
	}
	for n := range 80 {
		tenant := "tenant-1"
		if n >= 60 {
			tenant = "tenant-2"
		}
		if err := enqueueImport(t.Context(), st, tenant, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	stop := replica(t, st, set, scheduler.Options{})
	tasks, _, err := st.Tasks(t.Context(), allOf("imports"))
	if err != nil || len(tasks) != 80 {
		t.Fatalf("%d tasks: %v", len(tasks), err)
	}
	for _, task := range tasks {
		if end := ended(t, st, task.ID); end.State != jobs.StateSucceeded {
			t.Errorf("%s: %s", end.State, end.Error)
		}
	}
	stop()
	return starts, most
}

// No tenant has more than two at once; and with the shares alone, the one that came last has a quarter of the starts.
func TestTenants(t *testing.T) {
	if _, most := drained(t, func(*jobs.Pool) {}); most > 2 {
		t.Errorf("%d of tenant-1 at once", most)
	}
	starts, _ := drained(t, func(p *jobs.Pool) { p.PerKey = jobs.KeyLimits{} })
	others := 0
	for _, tenant := range starts[:40] {
		if tenant == "tenant-2" {
			others++
		}
	}
	if others < 8 || others > 12 {
		t.Errorf("of 40 starts, tenant-2 had %d: %v", others, starts)
	}
}
