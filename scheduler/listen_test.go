package scheduler_test

import (
	"context"
	"database/sql"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A task that the program enqueues or retries on the replica's own Store begins at once, and not with the next poll. In a
// bubble only waiting takes time.
func TestWhatTheProgramEnqueuesBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		st, err := store.New(db, store.SQLite, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := make(chan time.Time, 1)
		h := does(func(context.Context, jobs.Task, io.Writer) error {
			began <- time.Now()
			return nil
		})
		s, err := scheduler.New(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}}, scheduler.Options{ID: "a", SessionTTL: time.Minute, MaxClockSkew: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		id := ""
		for i, add := range []func() error{
			func() error {
				added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
				if err == nil {
					id = added[0].ID
				}
				return err
			},
			func() error { _, err := st.Retry(t.Context(), id, "", false); return err },
		} {
			time.Sleep(10*time.Second + 123*time.Millisecond)
			asked := time.Now()
			if err := add(); err != nil {
				t.Fatal(err)
			}
			if took := (<-began).Sub(asked); took > 10*time.Millisecond {
				t.Errorf("task %d began %v later", i+1, took)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); err != nil { // the replica is not woken
			t.Error(err)
		}
	})
}
