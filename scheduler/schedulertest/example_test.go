package schedulertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

type Receipt struct{ Order int }

func printReceipt(_ context.Context, t jobs.Task, r Receipt) error {
	if r.Order == 0 {
		return jobs.Cancel(errors.New("no such order"))
	}
	return nil
}

// placeOrder is the code under test: it enqueues in the transaction that it is given.
func placeOrder(ctx context.Context, st *store.Store, tx *sql.Tx, order int) error {
	_, err := st.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "printer", Kind: "receipt", Payload: Receipt{order}})
	return err
}

// Tests of code that enqueues, and of handlers.
func ExampleBench() {
	t := exampleT() // in a test: the *testing.T it is given
	b := schedulertest.New(t, jobs.Set{Pools: map[string]jobs.Pool{
		"printer": {Kinds: map[string]jobs.Handler{"receipt": jobs.Func(printReceipt)}},
	}}, schedulertest.Options{})

	tx, err := b.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []int{7, 0} {
		if err := placeOrder(t.Context(), b.Store(), tx, order); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}

	for _, task := range b.Pending() {
		fmt.Println("enqueued:", schedulertest.Payload[Receipt](t, task))
	}
	for _, task := range b.Drain() {
		fmt.Printf("ended: %s %q\n", task.State, task.Error)
	}
	// Output:
	// enqueued: {7}
	// enqueued: {0}
	// ended: succeeded ""
	// ended: cancelled "cancelled by its handler: no such order"
}

// stand stands in for a test, which examples do not have.
type stand struct{ testing.TB }

func exampleT() testing.TB { return stand{} }

func (stand) Helper()                  {}
func (stand) Cleanup(func())           {}
func (stand) Context() context.Context { return context.Background() }
func (stand) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
