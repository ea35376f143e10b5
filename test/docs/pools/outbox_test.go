package pools

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

type shop struct {
	db      *sql.DB
	tasks   *store.Store
	replica *scheduler.Scheduler
}

type confirmation struct{ Order int }

func (s *shop) order(ctx context.Context, number int, item string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (number, item) VALUES (?, ?)", number, item); err != nil {
		return err
	}
	// Last, as what follows is done under the locks that it may take.
	if _, err := s.tasks.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "mail", Payload: confirmation{number}}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.replica.Wake("mail") // optional: else with the next look
	return nil
}

// The task of an order exists if, and only if, the order does.
func TestOutbox(t *testing.T) {
	db, st := database(t)
	if _, err := db.Exec("CREATE TABLE orders (number INTEGER PRIMARY KEY, item TEXT)"); err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 9)
	set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Func(func(_ context.Context, _ jobs.Task, c confirmation) error {
		sent <- c.Order
		return nil
	})}}}
	s, err := scheduler.New(st, nil, set, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.AddPools(t.Context(), set.Pools); err != nil {
		t.Fatal(err)
	}
	shop := &shop{db, st, s}
	if err := errors.Join(shop.order(t.Context(), 7, "tea"), shop.order(t.Context(), 8, "cups")); err != nil {
		t.Fatal(err)
	}
	if err := shop.order(t.Context(), 7, "tea"); err == nil {
		t.Error("two orders with one number")
	}
	replica(t, st, set, scheduler.Options{})
	orders := map[int]int{<-sent: 1}
	orders[<-sent]++
	tasks, _, err := st.Tasks(t.Context(), allOf("mail"))
	if err != nil || len(tasks) != 2 || orders[7] != 1 || orders[8] != 1 {
		t.Errorf("%d tasks, sent %v: %v", len(tasks), orders, err)
	}
}
