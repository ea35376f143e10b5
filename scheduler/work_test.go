package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
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
	await.Until(t, "the pool is known", func() bool {
		pools, err := st.Sides().API.Pools(t.Context())
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
	await.Until(t, "task "+id+" has ended", func() bool {
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
		{"fails for good", func(context.Context, jobs.Task, io.Writer) error {
			return jobs.Permanent(errors.New("no such address"))
		}, jobs.StateFailed, 1, "not retried: no such address"},
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
	set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{}, Retries: quick, Timeout: 100 * time.Millisecond, Workers: 20}}}
	kinds := set.Pools["p"].Kinds
	var tasks []jobs.NewTask
	for i, c := range cases {
		kind := "k" + string(rune('a'+i))
		kinds[kind] = c.handler
		tasks = append(tasks, jobs.NewTask{Pool: "p", Kind: kind})
	}
	var log bytes.Buffer // read after the replica has ended
	r := start(t, st, nil, set, scheduler.Options{ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	await.Until(t, "the pool is known", func() bool {
		pools, err := st.Sides().API.Pools(t.Context())
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
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	for i, c := range cases { // one line for each attempt
		var lines []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `msg="attempt ended"`) && strings.Contains(line, "task="+added[i].Task.ID) {
				lines = append(lines, line)
			}
		}
		if len(lines) != c.attempts || !strings.Contains(lines[c.attempts-1], "state="+string(c.state)) || !strings.Contains(lines[c.attempts-1], c.says) {
			t.Errorf("%s: the log says %q", c.name, lines)
		}
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
	if _, err := st.Cancel(t.Context(), id, "a test"); err != nil {
		t.Fatal(err)
	}
	r.Wake()
	if got := ended(t, st, id); got.State != jobs.StateCancelled || got.Attempt != 1 {
		t.Errorf("%s after %d attempts", got.State, got.Attempt)
	}
}

func TestAPausedPoolStartsNothing(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	ran := &starts{}
	set := pool(ran, nil)
	set.Jobs = map[string]jobs.Job{"every-second": {Schedule: "* * * * * *", Handler: ran, Pool: "p", Concurrency: jobs.Allow}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	await.Until(t, "it works", func() bool { return ran.count() > 0 })
	yes := true
	if err := st.Sides().API.PausePool(t.Context(), "p", "a test", &yes); err != nil {
		t.Fatal(err)
	}
	// A decision from before the pause may be under way: what counts is what is decided after.
	paused := len(ledgerOf(t, st, "every-second"))
	await.Until(t, "two more due times are decided", func() bool { return len(ledgerOf(t, st, "every-second")) >= paused+2 })
	enqueue(t, st, r, 1)
	for _, row := range ledgerOf(t, st, "every-second")[paused:] {
		if got := task(t, st, row.TaskID); got.State != jobs.StatePending {
			t.Errorf("the task of %v is %s in a paused pool", row.At, got.State)
		}
	}
	had := ran.count()
	if err := st.Sides().API.PausePool(t.Context(), "p", "a test", nil); err != nil {
		t.Fatal(err)
	}
	r.Wake()
	await.Until(t, "all of it runs", func() bool { return ran.count() >= had+3 })
	ran.onlyOnce(t)
}
