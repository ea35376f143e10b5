package scheduler_test

import (
	"context"
	"database/sql"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// idleReplica runs a replica with a pool until the test ends, and returns when its tasks begin.
func idleReplica(t *testing.T, st *store.Store, lk scheduler.Locks) <-chan time.Time {
	t.Helper()
	began := make(chan time.Time, 10)
	set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: does(func(context.Context, jobs.Task, io.Writer) error {
		began <- time.Now()
		return nil
	})}}}
	s, err := scheduler.New(st, lk, set, scheduler.Options{SessionTTL: time.Minute, MaxClockSkew: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Minute)
	return began
}

// delays returns how long after enqueue each of some tasks began, which come when the replica's poll is slow.
func delays(t *testing.T, began <-chan time.Time, enqueue func()) (longest, least time.Duration) {
	t.Helper()
	least = time.Hour
	for i := range 5 {
		time.Sleep(10*time.Second + time.Duration(i)*111*time.Millisecond)
		at := time.Now()
		enqueue()
		took := (<-began).Sub(at)
		longest, least = max(longest, took), min(least, took)
	}
	return longest, least
}

// A program that runs no replica wakes the idle ones of other processes with a Waker: with each Enqueue by itself, and with Wake
// after a transaction of its own.
func TestWaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() }) // after the replica has ended
		db.SetMaxOpenConns(1)
		service := memlock.New()
		client := func() (*store.Store, *locks.Locker) {
			st, err := store.New(db, store.SQLite, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			l, err := locks.New(service, locks.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close(context.Background()) })
			return st, l
		}
		served, serving := client()
		began := idleReplica(t, served, serving)
		st, l := client()
		enqueue := func() {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"}); err != nil {
				t.Fatal(err)
			}
		}
		inTx := func() {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "mail"}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if longest, least := delays(t, began, enqueue); least < 20*time.Millisecond || longest > 600*time.Millisecond {
			t.Errorf("without a Waker tasks began %v to %v later", least, longest)
		}
		w, err := scheduler.NewWaker(st, l)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		if longest, _ := delays(t, began, enqueue); longest > 20*time.Millisecond {
			t.Errorf("after Enqueue a task began %v later", longest)
		}
		if longest, _ := delays(t, began, func() { inTx(); w.Wake("mail") }); longest > 20*time.Millisecond {
			t.Errorf("after EnqueueTx and Wake a task began %v later", longest)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWakerOfNothing(t *testing.T) {
	if _, err := scheduler.NewWaker(nil, nil); err == nil {
		t.Error("a Waker without a store")
	}
	var none *locks.Locker
	if _, err := scheduler.NewWaker(&store.Store{}, none); err == nil {
		t.Error("a Waker with a nil *Locker: a lock service was meant")
	}
	w, err := scheduler.NewWaker(&store.Store{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Wake("mail")
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}
