package pools

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

type archive struct{ Pages int }

// importer keeps how far each task has come where its effects are.
type importer struct {
	page func(ctx context.Context, task string, page int) error // imports a page, and writes down that it is done
	done func(ctx context.Context, task string) (int, error)
}

func (i *importer) run(ctx context.Context, t jobs.Task, a archive) error {
	from, err := i.done(ctx, t.IdempotencyKey)
	if err != nil {
		return err
	}
	for page := from; page < a.Pages; page++ {
		if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
			return err // its timeout is over: a failure
		} else if err != nil {
			return jobs.Snooze(0) // a drain: another replica goes on at once, and no retry is used up
		}
		if err := i.page(context.WithoutCancel(ctx), t.IdempotencyKey, page); err != nil {
			return err
		}
	}
	return nil
}

// What a replica that drains has begun, the next one goes on with, and no page is imported twice.
func TestLong(t *testing.T) {
	_, st := database(t)
	pages, attempts, done := make(chan int), make(chan context.Context, 9), 0 // one attempt at a time
	i := &importer{
		page: func(_ context.Context, _ string, page int) error {
			pages <- page
			done = page + 1
			return nil
		},
		done: func(context.Context, string) (int, error) { return done, nil },
	}
	set := jobs.Set{Pools: map[string]jobs.Pool{"import": {Handler: jobs.Func(func(ctx context.Context, task jobs.Task, a archive) error {
		attempts <- ctx
		return i.run(ctx, task, a)
	})}}}
	id := enqueue(t, st, jobs.NewTask{Pool: "import", Payload: archive{5}})[0]
	stop := replica(t, st, set, scheduler.Options{DrainTimeout: time.Millisecond})
	first := <-attempts
	seen, stopped := []int{<-pages, <-pages}, make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-first.Done()
	seen = append(seen, <-pages) // that had begun
	<-stopped
	if task, _, err := st.Task(t.Context(), id); err != nil || task.State != jobs.StatePending || task.ReasonCode != reason.Snoozed {
		t.Fatalf("%s %s: %v", task.State, task.ReasonCode, err)
	}
	replica(t, st, set, scheduler.Options{})
	seen = append(seen, <-pages, <-pages)
	task := ended(t, st, id)
	if task.State != jobs.StateSucceeded || task.Attempt != 1 || fmt.Sprint(seen) != "[0 1 2 3 4]" {
		t.Errorf("%s at attempt %d: pages %v", task.State, task.Attempt, seen)
	}
}

// At its timeout it fails, and is not put off for ever.
func TestLongTimeout(t *testing.T) {
	_, st := database(t)
	i := &importer{
		page: func(context.Context, string, int) error { time.Sleep(time.Millisecond); return nil },
		done: func(context.Context, string) (int, error) { return 0, nil },
	}
	set := jobs.Set{Pools: map[string]jobs.Pool{"import": {Timeout: 20 * time.Millisecond, Retries: jobs.Retries{Limit: jobs.NoRetries}, Handler: jobs.Func(i.run)}}}
	id := enqueue(t, st, jobs.NewTask{Pool: "import", Payload: archive{1_000_000}})[0]
	replica(t, st, set, scheduler.Options{})
	if task := ended(t, st, id); task.State != jobs.StateFailed || task.ReasonCode != reason.Timeout {
		t.Errorf("%s %s", task.State, task.Reason)
	}
}
