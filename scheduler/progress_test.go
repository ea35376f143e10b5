package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// reported is a store that keeps the calls of Report, and fails them while away is set.
type reported struct {
	*memstore.Store
	mu    sync.Mutex
	calls []reportCall
	away  bool
}

type reportCall struct {
	at      time.Time
	reports []ledger.Progress
}

func (r *reported) Report(ctx context.Context, session string, reports []ledger.Progress) ([]bool, error) {
	r.mu.Lock()
	r.calls = append(r.calls, reportCall{time.Now(), slices.Clone(reports)})
	away := r.away
	r.mu.Unlock()
	if away {
		return nil, jobs.ErrUnavailable
	}
	return r.Store.Report(ctx, session, reports)
}

func (r *reported) set(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// taken returns the calls since the last time.
func (r *reported) taken() []reportCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func (r *reported) shows(t *testing.T, id string) string {
	t.Helper()
	task, _, err := r.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if task.ProgressDone == nil {
		return string(task.State) + " nothing"
	}
	return fmt.Sprintf("%s %v %s", task.State, *task.ProgressDone, task.ProgressText)
}

func (r *reported) enqueue(t *testing.T, tasks ...jobs.NewTask) (ids []string) {
	t.Helper()
	added, err := r.Enqueue(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range added {
		ids = append(ids, a.Task.ID)
	}
	return ids
}

// A hundred attempts that report all the time cost one call a second, the first at once; those that report nothing new cost none.
// The task shows what came last, while the store was away too, and nothing once the attempt has ended.
func TestProgressIsWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 100
		st := &reported{Store: &memstore.Store{Database: memstore.New()}}
		quiet := make(chan struct{})
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			for i := range 1000 {
				if err := task.Progress(float64(i)/2000, fmt.Sprint("step ", i)); err != nil {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
			for { // the same all the time
				select {
				case <-quiet:
					return task.Progress(1, "at the end, and never seen")
				case <-time.After(time.Second / 2):
					_ = task.Progress(0.5, "waits")
				}
			}
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: tasks}}}, Options{ID: "a", Workers: tasks})
		time.Sleep(time.Second) // it has joined
		ids := st.enqueue(t, slices.Repeat([]jobs.NewTask{{Pool: "p"}}, tasks)...)
		time.Sleep(5500 * time.Millisecond)
		calls := st.taken()
		if len(calls) < 5 || len(calls) > 7 {
			t.Errorf("%d calls in 5.5 s", len(calls))
		}
		for i, c := range calls {
			if i > 0 && c.at.Sub(calls[i-1].at) < time.Second {
				t.Errorf("call %d comes %v after the one before", i, c.at.Sub(calls[i-1].at))
			}
			if i > 0 && len(c.reports) != tasks {
				t.Errorf("call %d is about %d tasks", i, len(c.reports))
			}
		}
		if got := st.shows(t, ids[0]); got < "running 0.2" || got > "running 0.3" {
			t.Errorf("after 5.5 s the task shows %s", got)
		}
		st.set(true)
		time.Sleep(10 * time.Second) // all have said that they wait
		if n := len(st.taken()); n < 8 || n > 11 {
			t.Errorf("%d calls in 10 s while the store was away", n)
		}
		st.set(false)
		time.Sleep(2 * time.Second)
		if n := len(st.taken()); n != 1 {
			t.Errorf("%d calls after that", n)
		}
		if got := st.shows(t, ids[tasks-1]); got != "running 0.5 waits" {
			t.Errorf("the task shows %s", got)
		}
		time.Sleep(time.Minute)
		if n := len(st.taken()); n != 0 {
			t.Errorf("%d calls while nothing changed", n)
		}
		close(quiet)
		time.Sleep(time.Minute)
		if got := st.shows(t, ids[0]); got != "succeeded nothing" {
			t.Errorf("afterwards the task shows %s", got)
		}
		if n := len(st.taken()); n > 1 {
			t.Errorf("%d calls for attempts that had ended", n)
		}
	})
}

// The next attempt begins without the progress of the one before, and the result is that of the attempt that ended the task, also of one
// that failed or panicked.
func TestResultsAreThoseOfTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &reported{Store: &memstore.Store{Database: memstore.New()}}
		var kept jobs.Task
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			kept = task
			if task.Attempt == 1 {
				_ = task.Progress(0.9, "first")
			}
			if err := task.SetResult(map[string]int{"attempt": task.Attempt}); err != nil {
				return err
			}
			time.Sleep(10 * time.Second)
			switch {
			case task.Attempt == 1:
				return errors.New("again")
			case task.Priority == 1:
				return errors.New("failed")
			case task.Priority == 2:
				panic("oh")
			case task.Priority == 3:
				return task.SetResult(nil)
			}
			return nil
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 1, Retries: jobs.Retries{Limit: 1, Backoff: time.Second}}}}, Options{ID: "a"})
		time.Sleep(time.Second) // it has joined
		for priority, want := range []string{`{"attempt":2}`, `{"attempt":2}`, `{"attempt":2}`, ""} {
			id := st.enqueue(t, jobs.NewTask{Pool: "p", Priority: priority})[0]
			time.Sleep(5 * time.Second)
			if got := st.shows(t, id); got != "running 0.9 first" {
				t.Errorf("the first attempt shows %s", got)
			}
			time.Sleep(11 * time.Second)
			if got := st.shows(t, id); got != "running nothing" {
				t.Errorf("the second attempt shows %s", got)
			}
			if got, err := st.Result(t.Context(), id); err != nil || len(got) > 0 {
				t.Errorf("before the end the result is %s, %v", got, err)
			}
			time.Sleep(time.Minute)
			if got, err := st.Result(t.Context(), id); err != nil || string(got) != want {
				t.Errorf("priority %d: the result is %q, want %q, %v", priority, got, want, err)
			}
		}
		if err := kept.SetResult(7); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("after the attempt: %v", err)
		}
		if err := kept.Progress(0.1, "late"); err != nil {
			t.Error(err)
		}
	})
}

// A task that is cancelled while its last attempt fails ends with the result of that attempt, though it had retries left.
func TestTheResultOfACancelledTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &reported{Store: &memstore.Store{Database: memstore.New()}}
		h := replicatest.Function(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
			if err := task.SetResult("so far"); err != nil {
				return err
			}
			if _, err := st.Cancel(ctx, task.ID, "me"); err != nil { // the replica has not heard of it
				return err
			}
			return errors.New("again")
		})
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 1, Retries: jobs.Retries{Limit: 1, Backoff: time.Second}}}}, Options{ID: "a"})
		time.Sleep(time.Second)
		id := st.enqueue(t, jobs.NewTask{Pool: "p"})[0]
		time.Sleep(time.Minute)
		if got, err := st.Result(t.Context(), id); err != nil || string(got) != `"so far"` {
			t.Errorf("%q, %v", got, err)
		}
	})
}
