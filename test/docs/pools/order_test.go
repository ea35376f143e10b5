package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

type event struct {
	Account string
	Number  int
}

func booking(run jobs.Handler) jobs.Pool {
	return jobs.Pool{
		Order:   jobs.OrderKey,                                     // of one account one after the other
		Retries: jobs.Retries{Limit: 2, Backoff: time.Millisecond}, // how long a bad event holds up its account
		Handler: run,
	}
}

func booked(e event) jobs.NewTask {
	return jobs.NewTask{Pool: "bookings", Key: e.Account, Payload: e}
}

// The events of each account come in their order, also behind one that fails.
func TestOrder(t *testing.T) {
	_, st := database(t)
	var mu sync.Mutex
	seen := map[string][]int{}
	run := jobs.Func(func(_ context.Context, _ jobs.Task, e event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.Account == "a" && e.Number == 3 {
			return errors.New("a bad event")
		}
		seen[e.Account] = append(seen[e.Account], e.Number)
		return nil
	})
	set := jobs.Set{Pools: map[string]jobs.Pool{"bookings": booking(run)}}
	if err := st.AddPools(t.Context(), set.Pools); err != nil {
		t.Fatal(err)
	}
	replica(t, st, set, scheduler.Options{})
	replica(t, st, set, scheduler.Options{})
	var ids []string
	for n := range 10 {
		for _, account := range []string{"a", "b"} {
			added, err := st.Enqueue(t.Context(), booked(event{account, n}))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, added[0].ID)
		}
	}
	failed := 0
	for _, id := range ids {
		if task := ended(t, st, id); task.State == jobs.StateFailed {
			failed++
			if task.Attempt != 3 {
				t.Errorf("failed at attempt %d", task.Attempt)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(seen["a"]); failed != 1 || got != "[0 1 2 4 5 6 7 8 9]" || !slices.IsSorted(seen["b"]) || len(seen["b"]) != 10 {
		t.Errorf("%d failed; %v", failed, seen)
	}
}
