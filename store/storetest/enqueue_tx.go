package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var enqueueTxCases = []Case{
	{"EnqueueTx/VisibleAtCommit", visibleAtCommit},
	{"EnqueueTx/GoneAtRollback", goneAtRollback},
	{"EnqueueTx/OldSnapshot", oldSnapshot},
	{"EnqueueTx/NotATransaction", notATransaction},
	{"EnqueueTx/Many", enqueueManyTx},
}

func begin(t *testing.T, b *Bench) *sql.Tx {
	t.Helper()
	tx, err := b.DB.Handle().BeginTx(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func visibleAtCommit(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	tx := begin(t, b)
	id, err := b.Store.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "ü"})
	must(t, err)
	if _, _, err := b.Store.Task(t.Context(), id); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("before the commit: %v", err)
	}
	must(t, tx.Commit())
	task, _, err := b.Store.Task(t.Context(), id)
	must(t, err)
	if task.MaxAttempts != 3 || string(task.Payload) != "1" {
		t.Fatalf("%+v", task)
	}

	tx = begin(t, b)
	again, err := b.Store.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "ü"})
	if err != nil || again != id {
		t.Fatalf("the same key gave %s and %s, %v", id, again, err)
	}
	if _, err := b.Store.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 2, IdempotencyKey: "ü"}); !errors.Is(err, jobs.ErrConflict) {
		t.Fatalf("another body: %v", err)
	}
	if _, err := b.Store.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "q"}); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("another pool: %v", err)
	}
}

func goneAtRollback(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	task := jobs.NewTask{Pool: "p", IdempotencyKey: "key"}
	tx := begin(t, b)
	id, err := b.Store.EnqueueTx(t.Context(), tx, task)
	must(t, err)
	must(t, tx.Rollback())
	if all := Enqueue(t, b, task); all[0].Existed || all[0].Task.ID == id {
		t.Fatalf("the key of a transaction that was rolled back counts: %+v", all[0])
	}
}

// oldSnapshot: the caller's transaction has read before somebody else used the key.
func oldSnapshot(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	if b.Dialect == "sqlite" {
		return // a transaction that has read cannot write there after somebody else wrote; that is the caller's error
	}
	tx := begin(t, b)
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_idempotency`).Scan(&n))
	task := jobs.NewTask{Pool: "p", IdempotencyKey: "key"}
	first := Enqueue(t, b, task)[0].Task.ID
	id, err := b.Store.EnqueueTx(t.Context(), tx, task)
	if err != nil || id != first {
		t.Fatalf("got %s, %v; want %s", id, err, first)
	}
}

func notATransaction(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	for _, handle := range []any{b.DB.Handle(), nil, "tx"} {
		if _, err := b.Store.EnqueueTx(t.Context(), handle, newTask("p")); !errors.Is(err, jobs.ErrInvalid) {
			t.Fatalf("%T: %v", handle, err)
		}
	}
}

func enqueueManyTx(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	conn, err := b.DB.Handle().Conn(context.Background()) // anything with the two methods
	must(t, err)
	defer conn.Close()
	ids, err := b.Store.EnqueueManyTx(t.Context(), conn, newTask("p"), jobs.NewTask{Pool: "p", IdempotencyKey: "k"}, jobs.NewTask{Pool: "p", IdempotencyKey: "k"})
	must(t, err)
	if len(ids) != 3 || ids[0] == ids[1] || ids[1] != ids[2] {
		t.Fatal(ids)
	}
	var got []string
	tasks, _, err := b.Store.Tasks(t.Context(), pageOf("p", "", 0))
	must(t, err)
	for _, task := range tasks {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff([]string{ids[1], ids[0]}, got); diff != "" {
		t.Fatal(diff)
	}
}
