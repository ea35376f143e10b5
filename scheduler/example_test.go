package scheduler_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

type Welcome struct{ User int }

var welcomed = make(chan string)

func sendWelcome(ctx context.Context, t jobs.Task, w Welcome) error {
	welcomed <- fmt.Sprintf("welcome %d at attempt %d", w.User, t.Attempt)
	return nil
}

func sendDigest(ctx context.Context, t jobs.Task, _ struct{}) error { return nil }

// A program that embeds the scheduler, and enqueues work in its own transactions.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, _ := sql.Open("sqlite", ":memory:") // yours; store.New needs no more than a handle
	db.SetMaxOpenConns(1)                   // each connection would open another database
	defer db.Close()

	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := st.Migrate(ctx); err != nil { // or your own tool
		fmt.Println(err)
		return
	}
	lk, _ := locks.New(memlock.New(), locks.Options{}) // redislock.New(rdb), zklock, sqllock, …
	defer lk.Close(context.Background())
	work := jobs.Set{ // the same struct that config.Load makes from YAML
		Pools: map[string]jobs.Pool{"mail": {Workers: 20, MaxRunning: 100, Kinds: map[string]jobs.Handler{"welcome": jobs.Func(sendWelcome)}}},
		Jobs:  map[string]jobs.Job{"digest": {Schedule: "0 8 * * MON-FRI", Timezone: "Europe/London", Handler: jobs.Func(sendDigest)}},
	}
	if err := st.AddPools(ctx, work.Pools); err != nil { // so that tasks need not wait for the first replica
		fmt.Println(err)
		return
	}
	s, err := scheduler.New(st, lk, work, scheduler.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- s.Run(ctx) }() // blocks; ctx done = drain; nil after a clean stop

	enqueue := func(user int, end func(*sql.Tx) error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		// The task is committed or rolled back with the rest of the transaction.
		_, err = st.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: Welcome{user}, IdempotencyKey: fmt.Sprint("welcome-", user)})
		if err != nil {
			fmt.Println(err)
		}
		if err := end(tx); err != nil {
			fmt.Println(err)
		}
	}
	enqueue(6, (*sql.Tx).Rollback)
	enqueue(7, (*sql.Tx).Commit)
	s.Wake("mail") // optional: else one poll later
	fmt.Println(<-welcomed)

	stop()
	fmt.Println("stopped:", <-done)
	tasks, _, _ := st.Tasks(context.Background(), wire.TaskFilter{Pool: "mail"})
	fmt.Println("tasks:", len(tasks), tasks[0].State)
	// Output:
	// welcome 7 at attempt 1
	// stopped: <nil>
	// tasks: 1 succeeded
}
