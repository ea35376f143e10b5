package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Behind many tasks that this replica cannot run, those that it can run start about as soon as in an empty pool, and
// claims and looks stay small; one that comes among them starts within lookAgain and the time of a walk.
func TestManyThatCannotRunHoldUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const (
			lookMost, lookAgain = 1000, 10 * time.Second // how many a look reads, and when those that were passed are looked at again
			pollFast, pollSlow  = 50 * time.Millisecond, 500 * time.Millisecond
			many                = 5*lookMost + 300
		)
		st := &polled{Store: &memstore.Store{Database: memstore.New()}}
		ran := &replicatest.Starts{At: map[string]time.Time{}}
		enqueue := func(n int, task jobs.NewTask) (ids []string) {
			t.Helper()
			all := make([]jobs.NewTask, n)
			for i := range all {
				all[i] = task
			}
			got, err := st.Enqueue(t.Context(), all...)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got {
				ids = append(ids, e.Task.ID)
			}
			return ids
		}
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"known": ran}}}}, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		start := func(what string, within time.Duration, ids []string) {
			t.Helper()
			began := time.Now()
			time.Sleep(within)
			if n, last := ran.Started(ids); n != len(ids) {
				t.Errorf("%s: %d of %d started within %v", what, n, len(ids), within)
			} else {
				t.Logf("%s: started within %v", what, last.Sub(began))
			}
		}
		old := time.Now().Add(-time.Hour)
		for n := range many / 100 { // as they have different times, no look has to read many at once
			enqueue(100, jobs.NewTask{Pool: "p", Kind: "typo", Force: true, RunAt: old.Add(time.Duration(2*n) * time.Second)})
		}
		known := jobs.NewTask{Pool: "p", Kind: "known"}
		// A walk passes a thousand in each poll.
		start("at once", 2*time.Second, enqueue(200, known))
		start("behind", pollSlow+pollFast, enqueue(200, known))
		known.Priority = 5
		start("of a higher priority", pollSlow+pollFast, enqueue(200, known))
		known.Priority = -5
		start("of a lower priority", pollSlow+pollFast, enqueue(200, known))
		known.Priority = 0
		for _, at := range []time.Duration{-1, 331, 701} {
			known.RunAt = old.Add(at * time.Second / 10)
			start("among them", lookAgain+3*time.Second, enqueue(20, known))
		}
		known.RunAt = time.Time{}
		start("behind, later", pollSlow+pollFast, enqueue(200, known))

		time.Sleep(10 * time.Second)
		st.looks.Store(0)
		readies, claims := st.asked()
		// Twice a second, and a walk of six looks, each beside one behind, every ten seconds.
		if looks := st.looks.Load(); looks > 120+6*22 || readies > 120+6*22 || claims > 0 {
			t.Errorf("a minute: %d claims, %d looks, and %d times it asked for work", claims, looks, readies)
		}
	})
}
