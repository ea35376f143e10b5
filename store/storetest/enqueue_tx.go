package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var enqueueTxCases = []Case{
	{"EnqueueTx/VisibleAtCommit", visibleAtCommit},
	{"EnqueueTx/GoneAtRollback", goneAtRollback},
	{"EnqueueTx/OldSnapshot", oldSnapshot},
	{"EnqueueTx/NotATransaction", notATransaction},
	{"EnqueueTx/ReadOnly", readOnlyTx},
	{"EnqueueTx/Many", enqueueManyTx},
	{"EnqueueTx/HundredWithOneKey", hundredTxWithOneKey},
	{"EnqueueTx/HundredThatRollBack", hundredTxThatRollBack},
	{"EnqueueTx/UnknownKind", unknownKindTx},
	{"EnqueueTx/Isolation", isolation},
	{"EnqueueTx/Wrapped", wrappedTx},
	{"EnqueueTx/Conn", connTx},
	{"EnqueueTx/ConnWithoutBegin", connWithoutBegin},
}

// begin gives a transaction that is over when the test is. The test's context would end it before, and
// database/sql does not wait for that: the next test would meet its locks.
func begin(t *testing.T, b *Bench) *sql.Tx {
	t.Helper()
	tx, err := b.DB.Handle().BeginTx(context.WithoutCancel(t.Context()), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// enqueueTx enqueues one task, and returns its id.
func (b *Bench) enqueueTx(ctx context.Context, tx any, task jobs.NewTask) (string, error) {
	added, err := b.SQL().EnqueueTx(ctx, tx, task)
	if err != nil {
		return "", err
	}
	return added[0].ID, nil
}

func visibleAtCommit(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	tx := begin(t, b)
	id, err := b.enqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "ü"})
	must(t, err)
	if _, _, err := b.SQL().Task(t.Context(), id); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("before the commit: %v", err)
	}
	must(t, tx.Commit())
	task, _, err := b.SQL().Task(t.Context(), id)
	must(t, err)
	if task.MaxAttempts != 3 || string(task.Payload) != "1" {
		t.Fatalf("%+v", task)
	}

	tx = begin(t, b)
	again, err := b.enqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "ü"})
	if err != nil || again != id {
		t.Fatalf("the same key gave %s and %s, %v", id, again, err)
	}
	if _, err := b.SQL().EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Payload: 2, IdempotencyKey: "ü"}); !errors.Is(err, jobs.ErrConflict) || errors.Is(err, jobs.ErrUnavailable) {
		t.Fatalf("another body: %v", err)
	}
	if _, err := b.SQL().EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "q"}); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("another pool: %v", err)
	}
	if _, err := b.SQL().EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", Priority: 101}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "priority") {
		t.Fatalf("a bad task: %v", err)
	}
	if added, err := b.SQL().EnqueueTx(t.Context(), tx); err != nil || len(added) > 0 {
		t.Fatalf("no tasks: %v, %v", added, err)
	}
}

func goneAtRollback(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	task := jobs.NewTask{Pool: "p", IdempotencyKey: "key"}
	tx := begin(t, b)
	id, err := b.enqueueTx(t.Context(), tx, task)
	must(t, err)
	must(t, tx.Rollback())
	if all := Enqueue(t, b, task); all[0].Existed || all[0].Task.ID == id {
		t.Fatalf("the key of a transaction that was rolled back counts: %+v", all[0])
	}
}

// oldSnapshot: the caller's transaction has read before another one used the key.
func oldSnapshot(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	if b.Dialect == "sqlite" {
		return // a transaction that has read cannot write there after another one wrote; that is the caller's error
	}
	tx := begin(t, b)
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_idempotency`).Scan(&n))
	task := jobs.NewTask{Pool: "p", IdempotencyKey: "key"}
	first := Enqueue(t, b, task)[0].Task.ID
	added, err := b.SQL().EnqueueTx(t.Context(), tx, task)
	if err != nil || added[0].ID != first || added[0].Pool != "p" || !added[0].Existed {
		t.Fatalf("got %+v, %v; want %s", added, err, first)
	}
}

func notATransaction(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	for _, handle := range []any{b.DB.Handle(), wrappedDB{b.DB.Handle()}, nil, (*sql.Tx)(nil), (*gorm.DB)(nil), "tx"} {
		if _, err := b.SQL().EnqueueTx(t.Context(), handle, newTask("p")); !errors.Is(err, jobs.ErrInvalid) {
			t.Fatalf("%T: %v", handle, err)
		}
	}
}

// readOnlyTx: a caller that began a transaction that only reads cannot retry it with success.
func readOnlyTx(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	conn, err := b.DB.Handle().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	begin, end := []string{"START TRANSACTION READ ONLY"}, []string{"ROLLBACK"}
	if b.Dialect == "sqlite" {
		begin, end = []string{"PRAGMA query_only = 1", "BEGIN"}, []string{"ROLLBACK", "PRAGMA query_only = 0"}
	}
	for _, text := range begin {
		_, err = conn.ExecContext(t.Context(), text)
		must(t, err)
	}
	_, err = b.SQL().EnqueueTx(t.Context(), conn, newTask("p"))
	if !errors.Is(err, jobs.ErrInvalid) || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "this transaction only reads") {
		t.Errorf("got %v", err)
	}
	for _, text := range end {
		_, err = conn.ExecContext(t.Context(), text)
		must(t, err)
	}
	var n int
	must(t, conn.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_tasks`).Scan(&n))
	if n != 0 {
		t.Errorf("%d tasks were written", n)
	}
}

// wrappedTx and wrappedDB are what sqlx and its like make of a transaction and a handle.
type (
	ownTx     struct{ *sql.Tx }
	wrappedDB struct{ *sql.DB }
)

func wrappedTx(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	tx := begin(t, b)
	id, err := b.enqueueTx(t.Context(), &ownTx{tx}, newTask("p"))
	must(t, err)
	must(t, tx.Commit())
	if _, _, err := b.SQL().Task(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SQL().EnqueueTx(t.Context(), tx, newTask("p")); !errors.Is(err, sql.ErrTxDone) {
		t.Fatalf("after the commit: %v", err)
	}
}

// connTx: a transaction that is no object, but a connection after BEGIN.
func connTx(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	conn, err := b.DB.Handle().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		_, err = conn.ExecContext(t.Context(), "BEGIN")
		must(t, err)
		id, err := b.enqueueTx(t.Context(), conn, newTask("p"))
		must(t, err)
		_, err = conn.ExecContext(t.Context(), end)
		must(t, err)
		if _, _, err := b.SQL().Task(t.Context(), id); (err == nil) != (end == "COMMIT") {
			t.Fatalf("%s: %v", end, err)
		}
	}
}

// connWithoutBegin: a connection that is in no transaction is refused, and stays in none. One in a transaction is left as it is.
func connWithoutBegin(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	conn, err := b.DB.Handle().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	refused := func(after string, handle any) {
		t.Helper()
		_, err := b.SQL().EnqueueTx(t.Context(), handle, newTask("p"))
		if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "is in no transaction") || !strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", after, err)
		}
		if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 0 {
			t.Fatalf("%s: %d tasks are there at once", after, n)
		}
	}
	exec := func(text string) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), text)
		must(t, err)
	}
	refused("a new connection", conn)
	exec("BEGIN") // which SQLite would refuse in a transaction
	exec("ROLLBACK")
	refused("after the end", conn)
	refused("within a type of the caller's", wrappedConn{conn})

	b.DB.Exec(t, `CREATE TABLE orders (id INTEGER)`)
	defer b.DB.Exec(t, `DROP TABLE orders`)
	exec("BEGIN")
	exec("INSERT INTO orders VALUES (1)")
	exec("SAVEPOINT mine")
	_, err = b.SQL().EnqueueTx(t.Context(), wrappedConn{conn}, newTask("p"))
	must(t, err)
	exec("ROLLBACK TO SAVEPOINT mine")
	exec("COMMIT")
	if orders, tasks := b.DB.Int(t, `SELECT COUNT(*) FROM orders`), b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); orders != 1 || tasks != 0 {
		t.Errorf("%d orders and %d tasks", orders, tasks)
	}
}

type wrappedConn struct{ *sql.Conn }

// hundredTxWithOneKey: callers that repeat a transaction which met another one get one task.
func hundredTxWithOneKey(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	b.DB.Handle().SetMaxOpenConns(20)
	var ids [100]string
	Together(t, 100, func(ctx context.Context, i int) (err error) {
		ids[i], err = enqueueAgain(ctx, b, (*sql.Tx).Commit)
		return err
	})
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("%s and %s", ids[0], id)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 1 {
		t.Fatalf("%d tasks", n)
	}
}

// hundredTxThatRollBack: all but one of the transactions that add the key roll back.
func hundredTxThatRollBack(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	b.DB.Handle().SetMaxOpenConns(20)
	Together(t, 100, func(ctx context.Context, i int) error {
		end := (*sql.Tx).Rollback
		if i == 42 {
			end = (*sql.Tx).Commit
		}
		_, err := enqueueAgain(ctx, b, end)
		return err
	})
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 1 {
		t.Fatalf("%d tasks", n)
	}
}

// enqueueAgain repeats its transaction as long as others are in the way.
func enqueueAgain(ctx context.Context, b *Bench, end func(*sql.Tx) error) (string, error) {
	for {
		tx, err := b.DB.Handle().BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		id, err := b.enqueueTx(ctx, tx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "key"})
		if err == nil {
			if err = end(tx); err == nil {
				return id, nil
			}
		}
		_ = tx.Rollback()
		if !errors.Is(err, jobs.ErrUnavailable) || ctx.Err() != nil {
			return "", err
		}
	}
}

// unknownKindTx: a transaction whose task is refused for its kind, or since it has expired, may go on. Neither the task nor its key is in it, nor are
// those beside it.
func unknownKindTx(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	b.DB.Exec(t, `CREATE TABLE orders (id INTEGER)`)
	known := jobs.NewTask{Pool: "work", Kind: "fax", IdempotencyKey: "known"}
	unknown := jobs.NewTask{Pool: "work", Kind: "mail", IdempotencyKey: "unknown"}
	existing := jobs.NewTask{Pool: "work", Kind: "fax", IdempotencyKey: "existing"}
	id := Enqueue(t, b, existing)[0].Task.ID
	Enqueue(t, b, jobs.NewTask{Pool: "default", IdempotencyKey: "unknown"}) // another pool's key
	tx := begin(t, b)
	defer func() {
		_ = tx.Rollback() // it would keep the table
		b.DB.Exec(t, `DROP TABLE orders`)
	}()
	order := func(n int) {
		t.Helper()
		_, err := tx.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO orders VALUES (%d)`, n))
		must(t, err)
	}
	order(1)
	_, err := b.SQL().EnqueueTx(t.Context(), tx, unknown)
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Kind != "mail" {
		t.Fatalf("alone: %v", err)
	}
	order(2)
	_, err = b.SQL().EnqueueTx(t.Context(), tx, known, existing, unknown)
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Index != 2 {
		t.Fatalf("among others: %v", err)
	}
	order(3)
	expired := jobs.NewTask{Pool: "work", Kind: "fax", IdempotencyKey: "unknown", ExpiresAt: micro(1)}
	if _, err := b.SQL().EnqueueTx(t.Context(), tx, expired); !errors.Is(err, jobs.ErrInvalid) {
		t.Fatalf("one that has expired: %v", err)
	}
	order(4)
	must(t, tx.Commit())
	s.wantInt(4, `SELECT COUNT(*) FROM orders`)
	s.wantInt(2, `SELECT COUNT(*) FROM {tasks}`)
	s.wantInt(2, `SELECT COUNT(*) FROM {idempotency}`)
	s.load(withKinds("fax", "mail"))
	for _, task := range Enqueue(t, b, known, unknown, existing) {
		if task.Existed != (task.Task.ID == id) {
			t.Errorf("%s: %+v", task.Task.IdempotencyKey, task)
		}
	}
}

func isolation(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	if b.Dialect == "sqlite" {
		return // it has but one
	}
	for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := b.DB.Handle().BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		must(t, err)
		id, err := b.enqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", IdempotencyKey: level.String()})
		must(t, err)
		again, err := b.enqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", IdempotencyKey: level.String()})
		if err != nil || again != id {
			t.Fatalf("%s: %s and %s, %v", level, id, again, err)
		}
		must(t, tx.Commit())
		if _, _, err := b.SQL().Task(t.Context(), id); err != nil {
			t.Fatalf("%s: %v", level, err)
		}
	}
}

func enqueueManyTx(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	conn, err := b.DB.Handle().Conn(context.Background()) // anything with the two methods
	must(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN")
	must(t, err)
	added, err := b.SQL().EnqueueTx(t.Context(), conn, newTask("p"), jobs.NewTask{Pool: "p", IdempotencyKey: "k"}, jobs.NewTask{Pool: "p", IdempotencyKey: "k"})
	must(t, err)
	if len(added) != 3 || added[0].ID == added[1].ID || added[1].ID != added[2].ID || added[1].Existed || !added[2].Existed {
		t.Fatal(added)
	}
	_, err = conn.ExecContext(t.Context(), "COMMIT")
	must(t, err)
	var got []string
	tasks, _, err := b.SQL().Tasks(t.Context(), pageOf("p", "", 0))
	must(t, err)
	for _, task := range tasks {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff([]string{added[1].ID, added[0].ID}, got); diff != "" {
		t.Fatal(diff)
	}
}
