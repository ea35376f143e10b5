package scheduler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// tallied counts what replicas are told of ends.
type tallied struct {
	unmeasured
	mu sync.Mutex
	n  map[string]int
}

func (c *tallied) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[fmt.Sprintf(format, args...)]++
}

func (c *tallied) Ended(_ jobs.Task, end jobs.State, _ time.Duration) { c.add("ended %s", end) }
func (c *tallied) Recorded(t jobs.Task, end jobs.State, late bool) {
	c.add("recorded %s late %t: %s", end, late, t.State)
}
func (c *tallied) Fenced(jobs.Task, jobs.State) { c.add("fenced") }

func (c *tallied) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

// accepting is a handler whose work another process ends.
type accepting struct{ came chan jobs.Task }

func (h accepting) Run(ctx context.Context, t jobs.Task, _ io.Writer) error {
	h.came <- t
	wait, _ := accepted.From(ctx)
	return wait(ctx)
}

func (accepting) EndsElsewhere() bool { return true }
func (accepting) Identity() string    { return "accepting" }

// The end of an attempt that a server had accepted is counted and logged once, by the replica that the server called, whatever the server
// says and whichever replica that is.
func TestAnEndElsewhereIsCountedOnce(t *testing.T) {
	for what, c := range map[string]struct {
		end  wire.WorkerEnd
		want map[string]int
	}{
		"completed":     {wire.WorkerEnd{How: wire.WorkerCompleted}, map[string]int{"ended succeeded": 1, "recorded succeeded late false: succeeded": 1}},
		"failed":        {wire.WorkerEnd{How: wire.WorkerFailed, Final: true, Error: "no"}, map[string]int{"ended failed": 1, "recorded failed late false: failed": 1}},
		"to be retried": {wire.WorkerEnd{How: wire.WorkerFailed, In: time.Hour, Error: "no"}, map[string]int{"ended failed": 1, "recorded failed late false: pending": 1}},
		"retried":       {wire.WorkerEnd{How: wire.WorkerFailed, Error: "no"}, map[string]int{"ended failed": 1, "recorded failed late false: pending": 1}},
		"snoozed":       {wire.WorkerEnd{How: wire.WorkerSnoozed, In: time.Hour}, map[string]int{"ended pending": 1, "recorded pending late false: pending": 1}},
		"begun again":   {wire.WorkerEnd{How: wire.WorkerSnoozed}, map[string]int{"ended pending": 1, "recorded pending late false: pending": 1}},
	} {
		for _, owner := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				st := &memstore.Store{Database: memstore.New()}
				h, seen, log := accepting{make(chan jobs.Task, 9)}, &tallied{}, &replicatest.Warnings{}
				byID := map[string]*Scheduler{}
				for _, id := range []string{"a", "b"} {
					byID[id] = runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"web": {Handler: h}}}, Options{ID: id, Observer: seen, Logger: slog.New(log)})
				}
				time.Sleep(time.Second)
				if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "web"}); err != nil {
					t.Fatal(err)
				}
				task := <-h.came
				called := byID["a"]
				if (task.Replica == "a") != owner {
					called = byID["b"]
				}
				time.Sleep(3 * time.Second)
				log.Take()
				if _, err := called.EndFor(t.Context(), wire.WorkerAttempt{Task: task.ID, Token: task.Token}, c.end); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if d := cmp.Diff(c.want, seen.take()); d != "" {
					t.Errorf("%s, at the owner %t: %s", what, owner, d)
				}
				if said := log.Take(); len(said) > 0 {
					t.Errorf("%s, at the owner %t: the log warns %q", what, owner, said)
				}
				if n := byID["a"].work.Running()["web"] + byID["b"].work.Running()["web"]; n != len(h.came) {
					t.Errorf("%s: %d attempts run, want %d", what, n, len(h.came))
				}
			})
		}
	}
}

// lateTimeouts is a store whose answers about attempts that have timed out come late, so that several replicas find the same ones. It counts the
// calls that end attempts.
type lateTimeouts struct {
	*memstore.Store
	mu    sync.Mutex
	calls int
}

func (s *lateTimeouts) TimedOut(ctx context.Context, now time.Time, limit int) ([]ledger.Held, error) {
	held, err := s.Store.TimedOut(ctx, now, limit)
	if len(held) > 0 {
		time.Sleep(time.Second)
	}
	return held, err
}

func (s *lateTimeouts) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	return s.Store.Finish(ctx, session, results)
}

func (s *lateTimeouts) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

// claims claims tasks for a worker.
func claims(t *testing.T, s *Scheduler, c wire.WorkerClaim) (string, []jobs.Task) {
	t.Helper()
	got, err := s.ClaimFor(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	tasks := make([]jobs.Task, len(got.Items))
	for i, item := range got.Items {
		tasks[i] = item.Task
	}
	return got.Session, tasks
}

// Attempts of several workers that have timed out are ended together, and each is counted once, however many replicas find them.
func TestTimeoutsOfWorkersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lateTimeouts{Store: &memstore.Store{Database: memstore.New()}}
		seen, log := &tallied{}, &replicatest.Warnings{}
		var replicas []*Scheduler
		for _, id := range []string{"a", "b", "c"} {
			set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}, Timeout: 30 * time.Second, Retries: jobs.Retries{Limit: 1, Backoff: time.Hour}}}}
			replicas = append(replicas, runs(t, st, set, Options{ID: id, Observer: seen, Logger: slog.New(log)}))
		}
		time.Sleep(time.Second)
		const workers, each = 4, 5
		all := slices.Repeat([]jobs.NewTask{{Pool: "mail"}}, workers*each)
		if _, err := st.Enqueue(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		beats := map[string]jobs.Task{}
		for i := range workers {
			session, tasks := claims(t, replicas[i%3], wire.WorkerClaim{Pool: "mail", Max: each})
			if len(tasks) != each {
				t.Fatalf("claimed %d tasks", len(tasks))
			}
			beats[session] = tasks[0]
		}
		st.take()
		for range 15 { // the workers live, and do not end their attempts
			time.Sleep(3 * time.Second)
			for session, task := range beats {
				_, _ = replicas[0].HeartbeatFor(t.Context(), wire.WorkerAttempt{Session: session, Task: task.ID, Token: task.Token}, wire.WorkerReport{})
			}
		}
		if d := cmp.Diff(map[string]int{"recorded failed late false: pending": workers * each}, seen.take()); d != "" {
			t.Error(d)
		}
		if n := st.take(); n < 2 || n > 3 {
			t.Errorf("%d calls have ended them, want one of each replica that found them", n)
		}
		if said := log.Take(); len(said) > 0 {
			t.Errorf("the log warns %q", said)
		}
	})
}

// What a worker that leaves has is ended in one call, and counted once.
func TestAWorkerLeavesManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lateTimeouts{Store: &memstore.Store{Database: memstore.New()}}
		seen := &tallied{}
		s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}, Options{ID: "a", Observer: seen})
		time.Sleep(time.Second)
		const each = 60
		if _, err := st.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "mail"}}, 10*each)...); err != nil {
			t.Fatal(err)
		}
		session, token := "", map[string]int64{}
		for range 10 {
			var tasks []jobs.Task
			session, tasks = claims(t, s, wire.WorkerClaim{Pool: "mail", Session: session, Max: each})
			for _, task := range tasks {
				token[task.ID] = task.Token
			}
		}
		if len(token) != 10*each {
			t.Fatalf("claimed %d tasks", len(token))
		}
		// Those of lost answers come again, at most a hundred at once.
		have := slices.Sorted(maps.Keys(token))[:3*each]
		_, again := claims(t, s, wire.WorkerClaim{Pool: "mail", Session: session, Max: 1, Have: have})
		if len(again) != 100 || slices.ContainsFunc(again, func(task jobs.Task) bool { return slices.Contains(have, task.ID) || task.Token != token[task.ID] }) {
			t.Errorf("%d tasks came again", len(again))
		}
		st.take()
		if stopped, err := s.LeaveFor(t.Context(), wire.WorkerCaller{}, session); err != nil || stopped != 10*each {
			t.Errorf("%d stopped, %v", stopped, err)
		}
		if n := st.take(); n != 2 {
			t.Errorf("%d calls have ended them, want one for each 500", n)
		}
		if d := cmp.Diff(map[string]int{"recorded lost late false: pending": 10 * each}, seen.take()); d != "" {
			t.Error(d)
		}
		for id := range token {
			task, attempts, err := st.Task(t.Context(), id)
			if err != nil || len(attempts) != 1 || attempts[0].ReasonCode != reason.Drained || !strings.Contains(attempts[0].Reason, "left") {
				t.Fatalf("%+v %+v, %v", task, attempts, err)
			}
		}
	})
}
