package scheduler

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// noting is a handler that notes when each payload was begun. The first attempt of "fails" takes four seconds, and
// fails.
type noting struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (n *noting) Run(_ context.Context, task jobs.Task, _ io.Writer) error {
	what := string(task.Payload)
	n.mu.Lock()
	n.at[what] = append(n.at[what], time.Now())
	first := len(n.at[what]) == 1
	n.mu.Unlock()
	if what != `"fails"` || !first {
		return nil
	}
	time.Sleep(4 * time.Second)
	return errors.New("the first attempt fails")
}

func (n *noting) begun(what string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at[`"`+what+`"`]
}

// The database's clock jumps ahead by an hour for a few seconds, which no replica believes: so nothing starts
// early or late, and nothing is deleted.
func TestAJumpOfTheClockThatNoReplicaBelieves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		var jump atomic.Int64
		db.Clock = func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		st := &memstore.Store{Database: db}
		h := &noting{at: map[string][]time.Time{}}
		once := jobs.Retries{Limit: 1, Backoff: 10 * time.Second, MaxBackoff: 10 * time.Second}
		set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Retries: once}}}
		s, err := newOn(st, nil, set, Options{ID: "a", Retention: jobs.Retention{Succeeded: 30 * time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Second)
		enqueue := func(payload string, runAt time.Time) {
			t.Helper()
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Payload: payload, RunAt: runAt}); err != nil {
				t.Fatal(err)
			}
			s.Wake("p")
		}
		half := time.Now().Add(30 * time.Minute)
		enqueue("before", time.Time{})
		enqueue("before, for later", half)
		time.Sleep(sweepEvery - 4*time.Second)
		enqueue("fails", time.Time{})
		time.Sleep(time.Second)
		jump.Store(int64(time.Hour))
		enqueue("meanwhile", time.Time{})
		enqueue("meanwhile, for later", half)
		time.Sleep(5 * time.Second) // it sweeps
		jump.Store(0)
		back := time.Now()
		time.Sleep(3 * time.Second)
		db.Look(func(rows memstore.Rows) {
			if len(rows.Done) != 2 {
				t.Errorf("of two tasks that have just ended %d are left", len(rows.Done))
			}
		})
		time.Sleep(time.Hour)
		for what, due := range map[string]time.Time{"before, for later": half, "meanwhile": back, "meanwhile, for later": half} {
			if at := h.begun(what); len(at) != 1 || at[0].Before(due) || at[0].After(due.Add(3*time.Second)) {
				t.Errorf("what was enqueued %s began at %v, and was due at %v", what, at, due)
			}
		}
		if at := h.begun("fails"); len(at) != 2 || at[1].Sub(at[0]) > 30*time.Second {
			t.Errorf("what failed meanwhile was tried at %v", at)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
