package moving

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Invoice has the JSON that its River job had.
type Invoice struct {
	CustomerID string `json:"customer_id"`
	Number     int    `json:"number"`
}

var (
	errClosed  = errors.New("the account is closed")
	errPrinter = errors.New("no paper")
)

type biller struct{ printed []int }

func (b *biller) print(_ context.Context, i Invoice, _ string) error {
	switch {
	case i.CustomerID == "":
		return errClosed
	case i.Number < 0:
		return errPrinter
	}
	b.printed = append(b.printed, i.Number)
	return nil
}

func (b *biller) invoice(ctx context.Context, t jobs.Task, i Invoice) error {
	err := b.print(ctx, i, t.IdempotencyKey)
	switch {
	case errors.Is(err, errClosed):
		return jobs.Cancel(err) // river.JobCancel
	case errors.Is(err, errPrinter):
		return jobs.Snooze(time.Hour) // river.JobSnooze
	}
	return err
}

func (b *biller) remind(context.Context, jobs.Task, struct{}) error { return nil }

func billing(b *biller) jobs.Set {
	return jobs.Set{
		Pools: map[string]jobs.Pool{"billing": {
			Workers: 100,                           // MaxWorkers
			Timeout: time.Minute,                   // JobTimeout
			Retries: jobs.Retries{Limit: 24},       // MaxAttempts: 25
			PerKey:  jobs.KeyLimits{MaxRunning: 2}, // GlobalLimit, partitioned
			Kinds:   map[string]jobs.Handler{"invoice": jobs.Func(b.invoice)},
		}},
		Jobs: map[string]jobs.Job{"reminders": {Schedule: "0 8 * * MON-FRI", Handler: jobs.Func(b.remind)}},
	}
}

func bill(ctx context.Context, st *store.Store, tx *sql.Tx, i Invoice) error {
	_, err := st.EnqueueTx(ctx, tx, jobs.NewTask{
		Pool: "billing", Kind: "invoice", Payload: i, Key: i.CustomerID, Priority: 10,
		Unique: &jobs.Unique{By: []string{"kind", "payload.number"}}, // while it is open
	})
	return err
}

// fromRiver enqueues what a job of River is about, once, however often it is called for one id.
func fromRiver(ctx context.Context, st *store.Store, id int64, kind string, args json.RawMessage, priority int, at time.Time) error {
	_, err := st.Enqueue(ctx, jobs.NewTask{
		Pool: "billing", Kind: kind, Payload: args, RunAt: at,
		Priority:       10 * (2 - priority), // 1 to 4, smaller first, becomes 10 to −20, larger first
		IdempotencyKey: fmt.Sprint("river-", id),
	})
	return err
}

// The handlers, the set, the transaction and the hand-over of River's page.
func TestRiver(t *testing.T) {
	b := &biller{}
	bench := schedulertest.New(t, billing(b), schedulertest.Options{})
	ctx := t.Context()
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit, (*sql.Tx).Commit} {
		tx, err := bench.DB().BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(bill(ctx, bench.Store(), tx, Invoice{"c", 7}), end(tx)); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	for range 2 { // the answer to the first call was lost
		if err := errors.Join(
			fromRiver(ctx, bench.Store(), 1, "invoice", json.RawMessage(`{"customer_id":"d","number":8}`), 1, time.Time{}),
			fromRiver(ctx, bench.Store(), 2, "invoice", json.RawMessage(`{"customer_id":"d","number":9}`), 4, later.Truncate(time.Second)),
			fromRiver(ctx, bench.Store(), 3, "invoice", json.RawMessage(`{"customer_id":"d","number":-1}`), 2, time.Time{}),
			fromRiver(ctx, bench.Store(), 4, "invoice", json.RawMessage(`{"number":1}`), 2, time.Time{}),
		); err != nil {
			t.Fatal(err)
		}
	}
	states := map[jobs.State]int{}
	for _, task := range bench.Drain() {
		states[task.State]++
	}
	if states[jobs.StateSucceeded] != 2 || states[jobs.StateCancelled] != 1 || len(b.printed) != 2 || b.printed[0]+b.printed[1] != 15 {
		t.Errorf("%v, printed %v", states, b.printed)
	}
	waiting := bench.Pending()
	if len(waiting) != 2 || waiting[0].Priority != -20 || waiting[1].Attempt != 0 || !waiting[0].RunAt.Equal(later.Truncate(time.Second)) {
		t.Errorf("%+v", waiting)
	}
}
