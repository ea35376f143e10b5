package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// memory is a database that ends with the example.
func memory() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// A task is enqueued in a transaction that rolls back, and in one that commits.
func Example() {
	ctx := context.Background()
	db := memory() // the program's own
	defer db.Close()
	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := st.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	if err := st.AddPools(ctx, map[string]jobs.Pool{"mail": {}}); err != nil {
		log.Fatal(err)
	}

	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		added, err := st.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: map[string]int{"user": 7}})
		if err != nil {
			log.Fatal(err)
		}
		if err := end(tx); err != nil {
			log.Fatal(err)
		}
		_, _, err = st.Task(ctx, added[0].ID)
		fmt.Println("there is a task:", err == nil)
	}
	// Output:
	// there is a task: false
	// there is a task: true
}

// What New cannot work with is refused at the start, and the error says what to write instead.
func ExampleNew_refused() {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_, err = store.New(db, store.SQLite, store.Options{})
	fmt.Println(err)
	// Output:
	// store: check the handle: the database is in memory, and each connection has one of its own: call SetMaxOpenConns(1) on the handle, or use a file
}

// Enqueue adds many tasks in a transaction of its own, each once for its key.
func ExampleStore_Enqueue() {
	ctx := context.Background()
	db := memory()
	defer db.Close()
	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(st.Migrate(ctx), st.AddPools(ctx, map[string]jobs.Pool{"mail": {}})); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		added, err := st.Enqueue(ctx,
			jobs.NewTask{Pool: "mail", Payload: "ada", IdempotencyKey: "ada-2026-11"},
			jobs.NewTask{Pool: "mail", Payload: "bob", IdempotencyKey: "bob-2026-11"},
		)
		if err != nil {
			log.Fatal(err)
		}
		for _, a := range added {
			fmt.Println(string(a.Task.Payload), "existed:", a.Existed)
		}
	}
	_, err = st.Enqueue(ctx, jobs.NewTask{Pool: "mial"})
	fmt.Println(err)
	// Output:
	// "ada" existed: false
	// "bob" existed: false
	// "ada" existed: true
	// "bob" existed: true
	// store: enqueue: pool "mial": not found: no replica has loaded a configuration with it; known are default, mail
}
