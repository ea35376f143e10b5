package scheduler_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// printer prints what a replica does with the tasks of one pool. A program has here what its own metrics library needs.
type printer struct {
	pool string
	done chan struct{}
}

var _ scheduler.Observer = printer{}

func (p printer) print(t jobs.Task, format string, args ...any) {
	if t.Pool == p.pool {
		fmt.Printf(format+"\n", args...)
	}
}

func (p printer) Decided(jobs.Trigger) {}

func (p printer) Claimed(c jobs.ClaimTry) {
	if c.Pool == p.pool && c.Tasks > 0 {
		fmt.Printf("%s %d from %q, with the locks of the %s\n", c.Result, c.Tasks, c.Pool, c.LockBackend)
	}
}

func (p printer) Started(t jobs.Task, _ time.Duration) { p.print(t, "attempt %d started", t.Attempt) }

func (p printer) Ended(t jobs.Task, end jobs.State, _ time.Duration) { p.print(t, "it %s", end) }

func (p printer) Recorded(t jobs.Task, end jobs.State, late bool) {
	p.print(t, "the attempt is recorded as %s, the task is %s", end, t.State)
	if t.State.Ended() {
		close(p.done)
	}
}

func (p printer) HandedBack(t jobs.Task) { p.print(t, "handed back") }

func (p printer) Fenced(t jobs.Task, end jobs.State) { p.print(t, "the store refuses that it %s", end) }

func (p printer) Reaped(t jobs.Task, replica string) { p.print(t, "lost with replica %s", replica) }

// An Observer of a program's own, in place of a *metrics.Metrics.
func ExampleObserver() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, _ := sql.Open("sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	defer db.Close()
	st, _ := store.New(db, store.SQLite, store.Options{})
	if err := st.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	greet := func(context.Context, jobs.Task, string) error { return nil }
	work := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Kinds: map[string]jobs.Handler{"greeting": jobs.Func(greet)}}}}
	if err := st.AddPools(ctx, work.Pools); err != nil { // so that the task need not wait for the replica
		fmt.Println(err)
		return
	}
	p := printer{pool: "mail", done: make(chan struct{})}
	replica, err := scheduler.New(st, nil, work, scheduler.Options{Observer: p})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- replica.Run(ctx) }()
	if _, err := st.Enqueue(ctx, jobs.NewTask{Pool: "mail", Kind: "greeting", Payload: "hello"}); err != nil {
		fmt.Println(err)
		return
	}
	<-p.done
	stop()
	<-ended
	// Output:
	// took 1 from "mail", with the locks of the store
	// attempt 1 started
	// it succeeded
	// the attempt is recorded as succeeded, the task is succeeded
}
