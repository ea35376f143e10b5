package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Starts and successes are told of where they are named, once for each run, whether the decision starts it or a claim; a retry is no start, and what
// fails no success.
func TestStartsAndSuccessesAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		box := &inbox{says: func(n jobs.Notification) (string, error) {
			if n.ID != string(n.Event)+"/"+n.TaskID || n.Replica != "a" || n.Attempt < 1 {
				return "", jobs.Cancel(fmt.Errorf("told of %+v", n))
			}
			return fmt.Sprintf("%s %s%s attempt %d", n.Event, n.Job, map[bool]string{true: "pool " + n.Pool}[n.Job == ""], n.Attempt), nil
		}}
		both := jobs.Notify{On: []jobs.Event{jobs.EventStarted, jobs.EventSucceeded}, Handler: box}
		retried := jobs.Named("retried", jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
			if t.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}))
		fine := jobs.Named("fine", jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }))
		fails := jobs.Named("fails", jobs.Func(func(context.Context, jobs.Task, struct{}) error { return jobs.Permanent(errors.New("no luck")) }))
		at := "@at " + time.Now().Add(time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
		set := jobs.Set{
			Pools: map[string]jobs.Pool{"p": {Handler: fine, Notify: jobs.Notify{On: []jobs.Event{jobs.EventSucceeded}, Handler: box}}},
			Jobs: map[string]jobs.Job{
				"retried": {Schedule: at, Handler: retried, Notify: both, Retries: jobs.Retries{Limit: 1, Backoff: time.Second}},
				"fails":   {Schedule: at, Handler: fails, Notify: both},
				"silent":  {Schedule: at, Handler: fine, Notify: jobs.Notify{Handler: box}},
				"byhand":  {Handler: fine, Notify: both},
			},
		}
		s, err := newOn(st, nil, set, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if _, err := st.Enqueue(ctx, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}); err != nil {
			t.Error(err)
		}
		if _, _, err := s.RunJob(ctx, "byhand", "", ""); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		want := []string{
			"started byhand attempt 1", "started fails attempt 1", "started retried attempt 1",
			"succeeded byhand attempt 1", "succeeded pool p attempt 1", "succeeded pool p attempt 1", "succeeded retried attempt 2",
		}
		if got := box.all(); !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
