package work

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// orphaned is a store with tasks of expired sessions.
type orphaned struct {
	*replicatest.Picky
	mu      sync.Mutex
	reaped  []ledger.Reaped
	refusal error // of Reap
	reaps   int
	none    bool // there are no such tasks
}

func (c *orphaned) Running(context.Context, string) (ledger.Running, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ledger.Running{Orphaned: !c.none}, nil
}

func (c *orphaned) Reap(context.Context, int) ([]ledger.Reaped, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaps++
	return c.reaped, c.refusal
}

// reaping is replica a with a session of an hour, none of whose loops run.
func reaping(t *testing.T) (*replica, *orphaned) {
	t.Helper()
	st := &orphaned{Picky: replicatest.NewPicky(nil)}
	s := replicaOn(t, st, replicatest.Blocked{})
	s.assume(&membership.Session{ID: "mine", Trust: boottime.Awake().Add(time.Hour)})
	return s, st
}

func (c *orphaned) reapings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reaps
}

// A replica reaps each second, and at once when it is told to, while expired sessions have tasks.
func TestWhenAReplicaReaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := reaping(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.tend(ctx) }()
		time.Sleep(3*time.Second + 500*time.Millisecond)
		if n := st.reapings(); n != 3 {
			t.Errorf("reaped %d times in three seconds", n)
		}
		wake.Send(s.work.wakeTend)
		synctest.Wait()
		if n := st.reapings(); n != 4 {
			t.Errorf("reaped %d times when it was told to", n)
		}
		st.mu.Lock()
		st.none = true
		st.mu.Unlock()
		time.Sleep(3 * time.Second)
		if n := st.reapings(); n != 4 {
			t.Errorf("reaped %d times where there is nothing to reap", n-4)
		}
		stop()
		<-ended
	})
}

// reapings are the metrics of those.
type reapings struct {
	unmeasured
	tasks []string
}

func (r *reapings) Reaped(t jobs.Task, _ string) { r.tasks = append(r.tasks, t.ID) }

// The reaped tasks count, also where the store refuses the rest; a task that is pending for another attempt is claimed at
// once. A refusal of some tasks is no outage of the store.
func TestWhatIsReaped(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		away bool
	}{
		"all":             {nil, false},
		"some is refused": {replicatest.ErrRefused, false},
		"no more answers": {fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable), true},
	} {
		s, st := reaping(t)
		told := &reapings{}
		s.work.metrics, st.refusal = told, c.err
		st.reaped = []ledger.Reaped{{Task: jobs.Task{ID: "1", Pool: "p", State: jobs.StateLost}}}
		s.work.reap(t.Context())
		if n := len(s.work.feeder("p").wake); n > 0 {
			t.Errorf("%s: a pool is claimed from for a task that has ended", what)
		}
		st.reaped = []ledger.Reaped{{Task: jobs.Task{ID: "2", Pool: "p", State: jobs.StatePending}}}
		s.work.reap(t.Context())
		if n := len(s.work.feeder("p").wake); n == 0 {
			t.Errorf("%s: what waits for another attempt is left to the poll", what)
		}
		if !slices.Equal(told.tasks, []string{"1", "2"}) || !s.storeAnswers() != c.away {
			t.Errorf("%s: told of %v; the store is there: %t", what, told.tasks, s.storeAnswers())
		}
	}
}
