package schedulertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/scheduler"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

type order struct{ ID int }

// work is a set whose handlers note what they did.
func work(did *[]string) jobs.Set {
	note := func(format string, args ...any) { *did = append(*did, fmt.Sprintf(format, args...)) }
	return jobs.Set{
		Pools: map[string]jobs.Pool{"orders": {
			Workers: 1,
			Retries: jobs.Retries{Limit: 2, Backoff: time.Minute},
			Kinds: map[string]jobs.Handler{
				"confirm": jobs.Func(func(_ context.Context, t jobs.Task, o order) error {
					note("confirm %d", o.ID)
					return nil
				}),
				"broken": jobs.Func(func(_ context.Context, t jobs.Task, _ order) error {
					note("broken %d", t.Attempt)
					return errors.New("no paper")
				}),
			},
		}},
		Jobs: map[string]jobs.Job{"report": {
			Schedule: "0 8 * * MON-FRI", Timezone: "Europe/London",
			Handler: jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
				note("report of %s, %s", t.ScheduledAt.Format(time.DateTime), t.IdempotencyKey)
				return nil
			}),
		}},
	}
}

// both runs a test in a bubble and without.
func both(t *testing.T, test func(t *testing.T)) {
	t.Run("real time", func(t *testing.T) { test(t) })
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
}

func states(tasks []jobs.Task) (all []string) {
	for _, t := range tasks {
		all = append(all, fmt.Sprintf("%s%s %s %s", t.Job, t.Kind, t.State, t.Error))
	}
	return all
}

func TestDrain(t *testing.T) {
	both(t, func(t *testing.T) {
		var did []string
		b := schedulertest.New(t, work(&did), schedulertest.Options{})
		b.Enqueue(
			jobs.NewTask{Pool: "orders", Kind: "confirm", Payload: order{7}},
			jobs.NewTask{Pool: "orders", Kind: "broken"},
			jobs.NewTask{Pool: "orders", Kind: "confirm", Payload: "seven"},
			jobs.NewTask{Pool: "orders", Kind: "confirm", RunAt: time.Now().Add(time.Hour)},
		)
		if got := len(b.Pending()); got != 4 {
			t.Fatalf("%d tasks are pending", got)
		}
		got := states(b.Drain())
		want := []string{"confirm succeeded ", "confirm failed not retried: the payload of kind \"confirm\" of pool \"orders\" does not fit schedulertest_test.order: json: cannot unmarshal string into Go value of type schedulertest_test.order"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		slices.Sort(did)
		if diff := cmp.Diff([]string{"broken 1", "confirm 7"}, did); diff != "" {
			t.Error(diff)
		}
		rest := b.Pending()
		if len(rest) != 2 || rest[0].Attempt != 1 || rest[1].Attempt != 0 {
			t.Errorf("%+v", rest)
		}
		if again := b.Drain(); len(again) != 0 {
			t.Errorf("a second time: %+v", again)
		}
	})
}

func TestFire(t *testing.T) {
	both(t, func(t *testing.T) {
		var did []string
		b := schedulertest.New(t, work(&did), schedulertest.Options{})
		if got := b.Fire("report"); len(got) != 1 || got[0].State != jobs.StateSucceeded {
			t.Fatalf("%+v", got)
		}
		london, _ := time.LoadLocation("Europe/London")
		b.FireAt("report", time.Date(2031, 7, 1, 8, 0, 0, 0, london))
		if len(did) != 2 || did[1] != "report of 2031-07-01 07:00:00, report@2031-07-01T07:00:00Z" {
			t.Errorf("%q", did)
		}
	})
}

func TestRunUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		b := schedulertest.New(t, work(&did), schedulertest.Options{})
		b.Enqueue(jobs.NewTask{Pool: "orders", Kind: "broken"})
		ended := b.RunUntil(time.Date(2000, 1, 31, 8, 0, 0, 0, time.UTC)) // bubbles begin with the year 2000, on a Saturday
		want := []string{"broken 1", "broken 2", "broken 3"}
		for day := 3; day <= 31; day++ {
			if at := time.Date(2000, 1, day, 8, 0, 0, 0, time.UTC); at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
				want = append(want, fmt.Sprintf("report of %s, report@%s", at.Format(time.DateTime), at.Format(time.RFC3339)))
			}
		}
		if diff := cmp.Diff(want, did); diff != "" {
			t.Error(diff)
		}
		if len(ended) != len(want)-2 || ended[0].State != jobs.StateFailed {
			t.Errorf("%q", states(ended))
		}
		if late := time.Since(time.Date(2000, 1, 31, 8, 0, 0, 0, time.UTC)); late < 0 || late > time.Minute {
			t.Errorf("it ended %v late", late)
		}
	})
}

// Schedules fire in RunUntil alone: a test that drains does not depend on the time of day.
func TestDrainFiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tick := func(context.Context, jobs.Task, struct{}) error { return nil }
		set := jobs.Set{Jobs: map[string]jobs.Job{"tick": {Schedule: "@every 1s", Handler: jobs.Func(tick)}}}
		b := schedulertest.New(t, set, schedulertest.Options{})
		time.Sleep(10*time.Second + time.Millisecond)
		if ended := b.Drain(); len(ended) != 0 {
			t.Errorf("%+v", ended)
		}
		// Due times that have come meanwhile are decided as after an outage: all those within the grace of 10 s.
		if ended := b.RunUntil(time.Now()); len(ended) == 0 || len(ended) > 10 {
			t.Errorf("%d ran", len(ended))
		}
		if ended := b.RunUntil(time.Now().Add(5 * time.Second)); len(ended) != 5 {
			t.Errorf("%d ran", len(ended))
		}
	})
}

// The notification of a failure has been sent when Drain returns.
func TestNotifications(t *testing.T) {
	both(t, func(t *testing.T) {
		var told []string
		tell := func(_ context.Context, _ jobs.Task, n jobs.Notification) error {
			told = append(told, n.Text)
			return nil
		}
		broken := func(context.Context, jobs.Task, struct{}) error { return errors.New("no paper") }
		b := schedulertest.New(t, jobs.Set{Jobs: map[string]jobs.Job{
			"print": {Handler: jobs.Func(broken), Notify: jobs.Notify{Handler: jobs.Func(tell)}},
			"quiet": {Handler: jobs.Func(broken)},
		}}, schedulertest.Options{})
		for n := range 3 {
			b.Fire("quiet")
			ended := b.Fire("print")
			time.Sleep(2 * time.Millisecond) // two manual runs have two times
			if len(told) != n+1 || len(ended) != 2 || ended[1].Pool != naming.NotificationsPool || ended[1].State != jobs.StateSucceeded {
				t.Fatalf("%q %q", told, states(ended))
			}
		}
	})
}

// Handlers write to the test's variables without a lock: they run one at a time, unless the test asks for more.
func TestHandlersRunOneAtATime(t *testing.T) {
	for workers, want := range map[int]int64{0: 1, 4: 4} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			h := jobs.Func(func(context.Context, jobs.Task, struct{}) error {
				n := running.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(time.Second)
				running.Add(-1)
				return jobs.Permanent(errors.New("no"))
			})
			told := jobs.Notify{On: []jobs.Event{jobs.EventFailed}, Handler: h}
			set := jobs.Set{Pools: map[string]jobs.Pool{"a": {Handler: h, Notify: told}, "b": {Handler: h}}}
			b := schedulertest.New(t, set, schedulertest.Options{Scheduler: scheduler.Options{Workers: workers}})
			for range 6 {
				b.Enqueue(jobs.NewTask{Pool: "a"}, jobs.NewTask{Pool: "b"})
			}
			ended := b.Drain()
			if n := most.Load(); len(ended) <= 12 || n < want || want == 1 && n > 1 {
				t.Errorf("%d workers: %d ended, %d at once", workers, len(ended), n)
			}
		})
	}
}
