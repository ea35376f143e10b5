package scheduler_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// pool is a set with one pool, "p", of one handler.
func pool(h jobs.Handler, edit func(*jobs.Pool)) jobs.Set {
	p := jobs.Pool{Handler: h}
	if edit != nil {
		edit(&p)
	}
	return jobs.Set{Pools: map[string]jobs.Pool{"p": p}}
}

func enqueue(t *testing.T, st *store.Store, r *replica, n int) []string {
	t.Helper()
	var tasks []jobs.NewTask
	for range n {
		tasks = append(tasks, jobs.NewTask{Pool: "p"})
	}
	until(t, "the pool is known", func() bool {
		pools, err := st.PoolStatuses(t.Context())
		return err == nil && len(pools) >= 2
	})
	added, err := st.Enqueue(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		r.Wake("p")
	}
	var ids []string
	for _, a := range added {
		ids = append(ids, a.Task.ID)
	}
	return ids
}

func task(t *testing.T, st *store.Store, id string) jobs.Task {
	t.Helper()
	got, _, err := st.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// ended waits for a task's end.
func ended(t *testing.T, st *store.Store, id string) jobs.Task {
	t.Helper()
	var got jobs.Task
	until(t, "task "+id+" has ended", func() bool {
		got = task(t, st, id)
		return got.State.Ended()
	})
	return got
}

func TestAPoolDrains(t *testing.T) {
	st := sqlite(t).open(t)
	ran := &starts{}
	r := start(t, st, nil, pool(ran, nil), scheduler.Options{ID: "a"})
	ids := enqueue(t, st, r, 500)
	for _, id := range ids {
		if got := ended(t, st, id); got.State != jobs.StateSucceeded {
			t.Fatalf("task %s: %s %s %s", id, got.State, got.Reason, got.Error)
		}
	}
	ran.onlyOnce(t)
	if err := r.drain(); err != nil {
		t.Error(err)
	}
}

func TestOutcomesOfAttempts(t *testing.T) {
	st := sqlite(t).open(t)
	quick := jobs.Retries{Limit: 2, Backoff: 10 * time.Millisecond, MaxBackoff: 20 * time.Millisecond}
	cases := []struct {
		name     string
		handler  does
		state    jobs.State
		attempts int
		says     string
	}{
		{"succeeds", func(context.Context, jobs.Task, io.Writer) error { return nil }, jobs.StateSucceeded, 1, ""},
		{"fails, is retried, fails", func(context.Context, jobs.Task, io.Writer) error { return errors.New("no luck") }, jobs.StateFailed, 3, "no luck"},
		{"succeeds at the second attempt", func(_ context.Context, t jobs.Task, _ io.Writer) error {
			if t.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}, jobs.StateSucceeded, 2, ""},
		{"panics", func(context.Context, jobs.Task, io.Writer) error { panic("ouch") }, jobs.StateFailed, 3, "panic: ouch"},
		{"cancels itself", func(context.Context, jobs.Task, io.Writer) error { return jobs.Cancel(errors.New("pointless")) }, jobs.StateCancelled, 1, "pointless"},
		{"chooses when", func(_ context.Context, t jobs.Task, _ io.Writer) error {
			if t.Attempt == 1 {
				return jobs.RetryAfter(time.Millisecond, errors.New("busy"))
			}
			return nil
		}, jobs.StateSucceeded, 2, ""},
		{"takes too long", func(ctx context.Context, _ jobs.Task, _ io.Writer) error { <-ctx.Done(); return context.Cause(ctx) }, jobs.StateFailed, 3, "timeout after 100ms"},
		{"exits with 7", func(context.Context, jobs.Task, io.Writer) error {
			return &jobs.ExitError{Code: 7, Text: "exit status 7"}
		}, jobs.StateFailed, 3, "exit status 7"},
	}
	set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{}, Retries: &quick, Timeout: 100 * time.Millisecond, Workers: 20}}}
	kinds := set.Pools["p"].Kinds
	var tasks []jobs.NewTask
	for i, c := range cases {
		kind := "k" + string(rune('a'+i))
		kinds[kind] = c.handler
		tasks = append(tasks, jobs.NewTask{Pool: "p", Kind: kind})
	}
	start(t, st, nil, set, scheduler.Options{ID: "a"})
	until(t, "the pool is known", func() bool {
		pools, err := st.PoolStatuses(t.Context())
		return err == nil && len(pools) >= 2
	})
	added, err := st.Enqueue(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ended(t, st, added[i].Task.ID)
			if got.State != c.state || got.Attempt != c.attempts || !strings.Contains(got.Error+got.Reason, c.says) {
				t.Errorf("%s after %d attempts, %q %q; want %s after %d, %q", got.State, got.Attempt, got.Reason, got.Error, c.state, c.attempts, c.says)
			}
			_, earlier, err := st.Task(t.Context(), got.ID)
			if err != nil || len(earlier) != c.attempts-1 {
				t.Errorf("%d earlier attempts, want %d (%v)", len(earlier), c.attempts-1, err)
			}
			if c.name == "exits with 7" && (got.ExitCode == nil || *got.ExitCode != 7) {
				t.Errorf("exit code %v", got.ExitCode)
			}
		})
	}
}

func TestMaxRunningIsExactOverAllReplicas(t *testing.T) {
	for name, open := range map[string]func(*testing.T) database{"sqlite": sqlite, "mysql": mysql} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			st := db.open(t)
			var now, most atomic.Int64
			h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer now.Add(-1)
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				return nil
			})
			set := pool(h, func(p *jobs.Pool) { p.Workers, p.MaxRunning = 4, 5 })
			var last *replica
			for _, id := range []string{"a", "b", "c"} {
				last = start(t, db.open(t), nil, set, scheduler.Options{ID: id})
			}
			for _, id := range enqueue(t, st, last, 60) {
				ended(t, st, id)
			}
			if got := most.Load(); got > 5 || got < 3 {
				t.Errorf("%d ran at once, want at most 5 and nearly that", got)
			}
		})
	}
}

func TestCancelStopsARunningTask(t *testing.T) {
	st := sqlite(t).open(t)
	began := make(chan struct{}, 1)
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	r := start(t, st, nil, pool(h, nil), scheduler.Options{ID: "a"})
	id := enqueue(t, st, r, 1)[0]
	<-began
	if _, err := st.CancelTask(t.Context(), id, "a test"); err != nil {
		t.Fatal(err)
	}
	r.Nudge()
	if got := ended(t, st, id); got.State != jobs.StateCancelled || got.Attempt != 1 {
		t.Errorf("%s after %d attempts", got.State, got.Attempt)
	}
}

func TestDrainLetsWorkFinishAndHandsTheRestBack(t *testing.T) {
	st := sqlite(t).open(t)
	began, finish := make(chan struct{}, 10), make(chan struct{})
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.Workers = 1 }), scheduler.Options{ID: "a"})
	ids := enqueue(t, st, r, 3)
	<-began
	r.stop()
	until(t, "readiness says so", func() bool {
		h := r.Health()
		return !h[len(h)-1].Ready
	})
	close(finish)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	states := map[jobs.State]int{}
	for _, id := range ids {
		got := task(t, st, id)
		states[got.State]++
		if got.State == jobs.StatePending && got.Attempt != 0 {
			t.Errorf("a task that never started has attempt %d", got.Attempt)
		}
	}
	if states[jobs.StateSucceeded] != 1 || states[jobs.StatePending] != 2 {
		t.Errorf("states %v, want one succeeded and two pending", states)
	}
}

func TestDrainStopsWhatDoesNotEnd(t *testing.T) {
	for policy, want := range map[jobs.OnLost]jobs.State{jobs.LostFails: jobs.StateLost, jobs.LostRetries: jobs.StatePending} {
		t.Run(string(policy), func(t *testing.T) {
			st := sqlite(t).open(t)
			began := make(chan struct{}, 1)
			h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				began <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.OnLost = policy }), scheduler.Options{ID: "a", DrainTimeout: 50 * time.Millisecond})
			id := enqueue(t, st, r, 1)[0]
			<-began
			if err := r.drain(); err != nil {
				t.Fatal(err)
			}
			if got := task(t, st, id); got.State != want || !strings.Contains(got.Reason, "drained") {
				t.Errorf("%s, reason %q; want %s, drained", got.State, got.Reason, want)
			}
		})
	}
}

func TestManualRuns(t *testing.T) {
	st := sqlite(t).open(t)
	began, finish := make(chan jobs.Task, 1), make(chan struct{}, 10)
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		began <- task
		<-finish
		return nil
	})
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Payload: []byte(`{"n":1}`)}}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	var trigger jobs.Trigger
	var opened jobs.Task
	until(t, "the replica takes it", func() (ok bool) {
		var err error
		trigger, opened, err = r.RunJob(t.Context(), "j", "me")
		return err == nil
	})
	got := <-began
	if got.ID != opened.ID || got.Token == 0 || string(got.Payload) != `{"n":1}` || !strings.HasPrefix(got.IdempotencyKey, "j@") {
		t.Errorf("the handler got %+v", got)
	}
	if _, _, err := r.RunJob(t.Context(), "j", "me"); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), opened.ID) {
		t.Errorf("a second run beside the first: %v", err)
	}
	if _, err := r.RetryTask(t.Context(), opened.ID, "me"); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("retry of a running task: %v", err)
	}
	finish <- struct{}{}
	ended(t, st, opened.ID)
	retried, err := r.RetryTask(t.Context(), opened.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	again := <-began
	finish <- struct{}{}
	if again.RetryOf != opened.ID || again.IdempotencyKey != got.IdempotencyKey || again.Token <= got.Token {
		t.Errorf("the retry got %+v after %+v", again, got)
	}
	ended(t, st, retried.ID)
	if _, _, err := r.RunJob(t.Context(), "nobody", "me"); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("an unknown job: %v", err)
	}
	rows := ledgerOf(t, st, "j")
	if len(rows) != 2 || rows[0].Outcome != jobs.Ran || rows[1].Outcome != jobs.Skipped || rows[0].Seq == 0 || rows[0].By != "me" {
		t.Errorf("the ledger has %+v", rows)
	}
	_ = trigger
}

// silent is a store that its replica cannot reach while cut is set.
type silent struct {
	scheduler.Store
	cut atomic.Bool
}

var errCut = errors.Join(jobs.ErrUnavailable, errors.New("cut off by the test"))

func (s *silent) Beat(ctx context.Context, session string) (time.Time, error) {
	if s.cut.Load() {
		return time.Time{}, errCut
	}
	return s.Store.Beat(ctx, session)
}

func (s *silent) Peers(ctx context.Context) ([]ledger.Peer, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Peers(ctx)
}

func (s *silent) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Finish(ctx, session, results)
}

func TestAReplicaCutOffLosesItsTasksAndCannotOverwrite(t *testing.T) {
	db := sqlite(t)
	st := db.open(t)
	deaf := make(chan struct{})
	began := make(chan string, 10)
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		began <- task.Replica
		if task.Replica == "a" {
			<-deaf // a handler that does not listen
			return errors.New("the result of the stale hand")
		}
		return nil
	})
	set := pool(h, nil)
	o := scheduler.Options{SessionTTL: time.Second, DrainTimeout: time.Second}
	o.ID = "a"
	cut := &silent{Store: db.open(t)}
	a := start(t, cut, nil, set, o)
	id := enqueue(t, st, a, 1)[0]
	<-began
	o.ID = "b"
	start(t, db.open(t), nil, set, o)
	until(t, "b is there", func() bool {
		peers, err := st.Peers(t.Context())
		return err == nil && len(peers) == 2
	})
	cut.cut.Store(true)
	until(t, "readiness of the one cut off is red", func() bool { return !a.Health()[0].Ready })
	if got := ended(t, st, id); got.State != jobs.StateSucceeded || got.Replica != "b" || got.Lost != 1 {
		t.Errorf("%+v, want it done by b after one loss", got)
	}
	close(deaf)
	cut.cut.Store(false)
	until(t, "it joins again", func() bool {
		peers, err := st.Peers(t.Context())
		return err == nil && len(peers) == 2 && a.Health()[0].Ready
	})
	if err := a.drain(); err != nil {
		t.Error(err)
	}
	if got := task(t, st, id); got.State != jobs.StateSucceeded || got.Replica != "b" {
		t.Errorf("the stale hand wrote: %+v", got)
	}
}

func TestAPausedPoolStartsNothing(t *testing.T) {
	st := sqlite(t).open(t)
	ran := &starts{}
	set := pool(ran, nil)
	set.Jobs = map[string]jobs.Job{"every-second": {Schedule: "* * * * * *", Handler: ran, Pool: "p", Concurrency: jobs.Allow}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	until(t, "it works", func() bool { return ran.count() > 0 })
	yes := true
	if err := st.PausePool(t.Context(), "p", &yes, "a test"); err != nil {
		t.Fatal(err)
	}
	// One that was decided before the pause may be on its way: what counts is what is decided after.
	paused := len(ledgerOf(t, st, "every-second"))
	until(t, "two more due times are decided", func() bool { return len(ledgerOf(t, st, "every-second")) >= paused+2 })
	enqueue(t, st, r, 1)
	for _, row := range ledgerOf(t, st, "every-second")[paused:] {
		if got := task(t, st, row.TaskID); got.State != jobs.StatePending {
			t.Errorf("the task of %v is %s in a paused pool", row.At, got.State)
		}
	}
	had := ran.count()
	if err := st.PausePool(t.Context(), "p", nil, "a test"); err != nil {
		t.Fatal(err)
	}
	r.Nudge()
	until(t, "all of it runs", func() bool { return ran.count() >= had+3 })
	ran.onlyOnce(t)
}
