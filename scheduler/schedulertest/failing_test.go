package schedulertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// failing is a test that notes why it failed instead of failing.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Fatal(args ...any) {
	f.why = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// fails runs a test that must fail, and returns why it did.
func fails(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	if f.why == "" {
		t.Error("it did not fail")
	}
	return f.why
}

// A call that cannot be done fails the test, and says what to do.
func TestFailures(t *testing.T) {
	var did []string
	set := work(&did)
	set.Jobs["by-hand"] = jobs.Job{Handler: set.Jobs["report"].Handler}
	for name, c := range map[string]struct {
		test func(b *schedulertest.Bench)
		want string
	}{
		"an unknown kind": {func(b *schedulertest.Bench) { b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "refund"}); b.Drain() }, `kind "refund"`},
		"a kind for which nobody has come": {func(b *schedulertest.Bench) {
			b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "refund", Force: true})
			began := time.Now()
			defer func() { atOnce(b, time.Since(began)) }()
			b.Drain()
		}, `pool orders has no kind "refund"; it has broken, confirm`},
		"an unknown pool":  {func(b *schedulertest.Bench) { b.Enqueue(jobs.NewTask{Pool: "order"}) }, "known are default, orders"},
		"an unknown job":   {func(b *schedulertest.Bench) { b.Fire("reprot") }, `job "reprot": not found`},
		"no due time":      {func(b *schedulertest.Bench) { b.FireAt("report", time.Date(2030, 1, 6, 8, 0, 0, 0, time.UTC)) }, "2030-01-07T08:00:00Z"},
		"no schedule":      {func(b *schedulertest.Bench) { b.FireAt("by-hand", monday) }, `job "by-hand" has no schedule; use Fire`},
		"a due time twice": {func(b *schedulertest.Bench) { b.FireAt("report", monday); b.FireAt("report", monday) }, "was decided before"},
		"another's payload": {func(b *schedulertest.Bench) {
			schedulertest.Payload[int](failingOf(b), jobs.Task{Payload: []byte(`"a"`)})
		}, "does not fit int"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // some wait for a while
				why := fails(t, func(t testing.TB) {
					b := schedulertest.New(t, set, schedulertest.Options{})
					under[b] = t
					c.test(b)
				})
				if !strings.Contains(why, c.want) || strings.Contains(why, "force") != (name == "an unknown kind") {
					t.Errorf("it says %q, want %q", why, c.want)
				}
			})
		})
	}
	why := fails(t, func(t testing.TB) {
		schedulertest.New(t, jobs.Set{Jobs: map[string]jobs.Job{"a b": {Schedule: "x"}}}, schedulertest.Options{})
	})
	if !strings.Contains(why, "a b") || !strings.Contains(why, "schedule") {
		t.Error(why)
	}
}

// A Bench that was made outside of the bubble has tasks that are due in decades there.
func TestABenchOfAnotherClock(t *testing.T) {
	var did []string
	f := &failing{TB: t}
	b := schedulertest.New(f, work(&did), schedulertest.Options{})
	synctest.Test(t, func(*testing.T) {
		go b.RunUntil(time.Now().Add(24 * time.Hour))
		synctest.Wait()
	})
	if !strings.Contains(f.why, "it is 2000-01-01, and the Bench was made at 20") || !strings.Contains(f.why, "make it inside the synctest bubble") {
		t.Errorf("it says %q", f.why)
	}
}

var (
	monday = time.Date(2030, 1, 7, 8, 0, 0, 0, time.UTC)
	under  = map[*schedulertest.Bench]testing.TB{}
)

// atOnce fails the test that expects a failure if the failure took seconds.
func atOnce(b *schedulertest.Bench, took time.Duration) {
	if took > time.Second {
		failingOf(b).(*failing).why = "it failed after " + took.String()
	}
}

func failingOf(b *schedulertest.Bench) testing.TB { return under[b] }

// A task that enqueues another, again and again, is drained to the end; a panic is a failure of one task.
func TestTasksThatEnqueue(t *testing.T) {
	both(t, func(t *testing.T) {
		var b *schedulertest.Bench
		count := func(ctx context.Context, _ jobs.Task, n int) error {
			if n == 0 {
				panic("zero")
			}
			_, err := b.Store().Enqueue(ctx, jobs.NewTask{Pool: "count", Payload: n - 1})
			return err
		}
		b = schedulertest.New(t, jobs.Set{Pools: map[string]jobs.Pool{"count": {Handler: jobs.Func(count), Retries: jobs.Retries{Limit: jobs.NoRetries}}}}, schedulertest.Options{})
		b.Enqueue(jobs.NewTask{Pool: "count", Payload: 20})
		ended := b.Drain()
		if len(ended) != 21 || ended[19].State != jobs.StateSucceeded || ended[20].State != jobs.StateFailed || !strings.Contains(ended[20].Error, "zero") {
			t.Errorf("%d: %+v", len(ended), ended[len(ended)-1])
		}
	})
}

// Time passes for handlers, too, and times out those that take too long.
func TestLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := func(ctx context.Context, _ jobs.Task, _ struct{}) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(3 * time.Minute):
				return nil
			}
		}
		set := jobs.Set{Jobs: map[string]jobs.Job{
			"long":  {Schedule: "*/4 * * * *", Handler: jobs.Func(nap)},
			"short": {Schedule: "2-59/4 * * * *", Timeout: 10 * time.Second, Handler: jobs.Func(nap)},
		}}
		b := schedulertest.New(t, set, schedulertest.Options{})
		ended := map[string]int{}
		for _, task := range b.RunUntil(time.Date(2000, 1, 1, 0, 4, 0, 0, time.UTC)) {
			ended[task.Job+" "+string(task.State)+" "+task.Error]++
		}
		if ended["long succeeded "] != 1 || ended["short failed timeout after 10s"] != 2 { // the second one while the long one ran
			t.Errorf("%v", ended)
		}
	})
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func(context.Context, jobs.Task, struct{}) error { return errors.New("no paper") }
		set := jobs.Set{Jobs: map[string]jobs.Job{"print": {Handler: jobs.Func(broken), Retries: jobs.Retries{Limit: 1, Backoff: time.Hour}}}}
		why := fails(t, func(t testing.TB) {
			b := schedulertest.New(t, set, schedulertest.Options{})
			if got := b.Fire("print"); len(got) != 0 || len(b.Pending()) != 1 {
				t.Errorf("%+v", got)
			}
			b.Fire("print")
		})
		if !strings.Contains(why, "waits for a retry at") {
			t.Error(why)
		}
	})
}

// Nothing outlives a call: outside of bubbles no other test would notice.
func TestNothingIsLeftRunning(t *testing.T) {
	var did []string
	b := schedulertest.New(t, work(&did), schedulertest.Options{})
	before := runtime.NumGoroutine()
	for range 3 {
		b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "confirm", Payload: order{1}})
		b.Drain()
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, and %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A program whose tables are MySQL's tests on MySQL.
func TestOnMySQL(t *testing.T) {
	st, err := store.Open(t.Context(), "mysql", servers.MySQL(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var did []string
	set := work(&did)
	report := set.Jobs["report"]
	report.RunsOn = map[string]string{"zone": "a"}
	set.Jobs["report"] = report
	b := schedulertest.New(t, set, schedulertest.Options{Store: st, Scheduler: scheduler.Options{Labels: map[string]string{"zone": "a"}}})
	b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "confirm", Payload: order{7}}, jobs.NewTask{Pool: "orders", Kind: "broken"})
	if got := states(b.Drain()); len(got) != 1 || b.DB() != nil {
		t.Errorf("%q", got)
	}
	if got := states(b.FireAt("report", monday)); len(got) != 1 || got[0] != "report succeeded " {
		t.Errorf("%q", got)
	}
}

// A paused pool is left alone.
func TestPausedPool(t *testing.T) {
	both(t, func(t *testing.T) {
		var did []string
		b := schedulertest.New(t, work(&did), schedulertest.Options{})
		b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "confirm", Payload: order{7}})
		paused := true
		if err := b.Store().Sides().API.PausePool(t.Context(), "orders", "test", &paused); err != nil {
			t.Fatal(err)
		}
		if got := b.Drain(); len(got) != 0 || len(b.Pending()) != 1 {
			t.Errorf("%+v", got)
		}
	})
}
