package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A part that ends an attempt from outside of this process knows when to: the bound moves with the heartbeats, and
// with nothing else.
func TestTheBoundMovesWithTheBeats(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	cut := &silent{Store: sqlite(t).open(t).Sides().Replica}
	bounds := make(chan *bound.Bound, 1)
	over := make(chan struct{})
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		select {
		case bounds <- bound.Of(ctx):
		default: // a later attempt
		}
		select {
		case <-over:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	})
	r := start(t, cut, nil, far(h, jobs.LostRetries), scheduler.Options{ID: "a", SessionTTL: ttl})
	defer close(over)
	await.Until(t, "the replica runs the job", func() bool {
		_, _, err := r.RunJob(t.Context(), "j", "a test", "")
		return err == nil
	})
	bound := <-bounds
	if left := bound.StartLeft(); left <= 0 || left > ttl {
		t.Errorf("it may be started for %v", left)
	}
	if grace := bound.Grace(); grace != ttl/5 {
		t.Errorf("its last grace is %v", grace)
	}
	for range 5 {
		_, moved := bound.Until()
		select {
		case <-moved:
		case <-time.After(10 * ttl):
			t.Fatal("the bound does not move")
		}
		if left := bound.Left(); left <= 0 || left > ttl {
			t.Errorf("%v are left, with a session ttl of %v", left, ttl)
		}
	}
	if bound.StartLeft() > 0 {
		t.Error("the time to start it moved, too")
	}
	cut.cut.Store(true)
	time.Sleep(ttl / 10) // a heartbeat that was under way
	_, moved := bound.Until()
	await.Until(t, "its time is over", func() bool { return bound.Left() <= 0 })
	select {
	case <-moved:
		t.Error("it moved without a beat")
	default:
	}
	cut.cut.Store(false)
}

func TestWhatWasNotStartedGoesBack(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	var calls atomic.Int32
	h := does(func(context.Context, jobs.Task, io.Writer) error {
		if calls.Add(1) < 3 {
			return fmt.Errorf("%w: too late", abort.ErrNotStarted)
		}
		return nil
	})
	start(t, st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Retries: jobs.Retries{Limit: jobs.NoRetries}}}}, scheduler.Options{ID: "a"})
	if got := ended(t, st, enter(t, st, "p")); got.State != jobs.StateSucceeded || got.Attempt != 1 || got.Lost != 0 || calls.Load() != 3 {
		t.Errorf("%s after %d attempts, %d losses and %d calls", got.State, got.Attempt, got.Lost, calls.Load())
	}
}

func TestAnAttemptThatIsLost(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	h := does(func(_ context.Context, task jobs.Task, _ io.Writer) error {
		if task.Attempt == 1 {
			return fmt.Errorf("%w: what ran it died", abort.ErrLost)
		}
		return nil
	})
	start(t, st, nil, jobs.Set{Pools: map[string]jobs.Pool{
		"again": {Handler: h, OnLost: jobs.LostRetries, Retries: jobs.Retries{Limit: jobs.NoRetries}}, "once": {Handler: h, OnLost: jobs.LostFails},
	}}, scheduler.Options{ID: "a"})
	if got := ended(t, st, enter(t, st, "once")); got.State != jobs.StateLost || got.Reason != "lost: what ran it died" {
		t.Errorf("%s: %s", got.State, got.Reason)
	}
	if got := ended(t, st, enter(t, st, "again")); got.State != jobs.StateSucceeded || got.Attempt != 2 || got.Lost != 1 {
		t.Errorf("%s after %d attempts and %d losses", got.State, got.Attempt, got.Lost)
	}
}

// elsewhere is a store that replicas on other machines may share.
type elsewhere struct{ ledger.Store }

func (elsewhere) Local() bool { return false }

// Where all replicas are on one machine, its sleep ends no session: all of them sleep, too.
func TestSleepEndsNothingWhereAllSleep(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // there is one clock
	}
	if !scheduler.OnTheMachinesClocks(t) {
		return
	}
	for what, hide := range map[string]bool{"a file": false, "a server, as far as is known": true} {
		st := sqlite(t).open(t)
		shared := st.Sides().Replica
		if hide {
			shared = elsewhere{shared}
		}
		stamps := make(chan boottime.Stamp, 1)
		start(t, shared, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
			b := bound.Of(ctx)
			if b == nil {
				return errors.New("there is no bound")
			}
			stamps <- b.StartBy().Stamp()
			return nil
		})}}}, scheduler.Options{ID: "a"})
		enter(t, st, "p")
		if stamp := <-stamps; stamp.Awake == hide {
			t.Errorf("%s: the session ends at %+v", what, stamp)
		}
	}
}

func enter(t *testing.T, st *store.Store, pool string) (id string) {
	t.Helper()
	await.Until(t, "the pool is known", func() bool {
		tasks, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: pool})
		if err == nil {
			id = tasks[0].Task.ID
		}
		return err == nil
	})
	return id
}
