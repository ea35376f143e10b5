package scheduler

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// starts is a handler that notes when each task started.
type starts struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (s *starts) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[t.ID] = time.Now()
	return nil
}

func (s *starts) started(ids []string) (n int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if at, ok := s.at[id]; ok {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

// Behind many tasks that this replica cannot run, those that it can run start about as soon as in an empty pool, and
// claims and looks stay small; one that comes among them starts within lookAgain and the time of a walk.
func TestManyThatCannotRunHoldUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 5*lookMost + 300
		st := &polled{Store: &memstore.Store{Database: memstore.New()}}
		ran := &starts{at: map[string]time.Time{}}
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
			if n, last := ran.started(ids); n != len(ids) {
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

// A walk of a lookout passes the tasks that there are, and begins again lookAgain later, in turn with looks behind.
func TestALookoutWalksAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	type past = map[int]time.Time
	var l lookout
	step := func(want past, seen ledger.Seen, nothing bool) {
		t.Helper()
		got := l.ask(now)
		if len(got) != len(want) || !got[0].Equal(want[0]) || !got[3].Equal(want[3]) {
			t.Errorf("it asks with %v, not %v", got, want)
		}
		l.tell(now, seen)
		if l.nothing != nothing || l.work != seen.Work {
			t.Errorf("there is nothing: %t, work is %v", l.nothing, l.work)
		}
	}
	end, work := ledger.Seen{}, &ledger.Window{}
	step(nil, end, true)
	now = now.Add(time.Hour) // nothing was passed: there is nothing to walk
	step(nil, ledger.Seen{Past: past{3: at(1)}}, false)
	step(past{3: at(1)}, ledger.Seen{Past: past{0: at(2), 3: at(4)}}, false)
	step(past{0: at(2), 3: at(4)}, end, true)
	now = now.Add(lookAgain - 1)
	step(past{0: at(2), 3: at(4)}, ledger.Seen{Work: work}, false)
	now = now.Add(1)
	step(nil, ledger.Seen{Past: past{3: at(4)}}, false)                      // again
	step(past{0: at(2), 3: at(4)}, ledger.Seen{Past: past{0: at(5)}}, false) // behind
	step(past{3: at(4)}, ledger.Seen{Work: work}, false)                     // again
	step(past{0: at(5), 3: at(4)}, end, false)                               // behind
	step(past{3: at(4)}, end, true)                                          // again, to the end: what was passed of 0 is gone
	step(past{3: at(4)}, end, true)
	now = now.Add(lookAgain)
	step(nil, end, true)
	now = now.Add(lookAgain)
	step(nil, end, true)
}
