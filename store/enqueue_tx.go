package store

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// EnqueueTx adds tasks, all or none, within the caller's transaction; the answer has their order. They exist when,
// and only if, the caller commits. tx is a [*sql.Tx], a [*gorm.DB] in a transaction, or anything with
// the ExecContext and QueryContext of [*sql.Tx] that is in a transaction on this store's database: a
// *sqlx.Tx, or a [*sql.Conn] after BEGIN. Isolation level and flags are the caller's.
//
// Errors are those of Enqueue, and jobs.ErrInvalid for:
//   - what is in no transaction, since the task would exist at once. A value without Commit, such as a connection, is checked by
//     one more statement (on MySQL two).
//   - a transaction that only reads. But the driver modernc.org/sqlite ignores [sql.TxOptions].ReadOnly, and the task is written.
//   - a transaction on a database with the tables of another store. Their [Store.Namespace] is compared with the one that New,
//     Migrate or CheckSchema read. A copy of a database has the same. A Store that was made before its tables, and of which
//     neither Migrate nor CheckSchema was called since, compares nothing.
//
// A *jobs.KindError, or a *jobs.FieldError, leaves nothing of the task in the transaction, which may go on and be committed. After any other error the
// caller must roll back. What Enqueue would repeat itself, such as a deadlock, is jobs.ErrUnavailable here, and the caller must
// repeat the whole transaction.
//
// If a task exists under the same idempotency key and was committed too late for the transaction to see it, the answer has the
// requested task with the id of the existing one. While another open transaction has added the same key, EnqueueTx waits for its
// end, as long as the caller's lock timeout allows.
//
// The same holds for a unique task: others that enqueue one with its values wait. If one exists that is pending, or that runs and is unique
// while it is open, its row stays locked until the caller's transaction ends, so that its claim comes after that and sees what the transaction
// wrote: until then this claim, and the result of a task that runs, waits, and those that come with it. Commit soon.
//
// On SQLite a transaction that has read cannot write any more once another connection has written
// (SQLITE_BUSY): begin with a write, or open the handle with _txlock=immediate.
func (s *Store) EnqueueTx(ctx context.Context, tx any, tasks ...jobs.NewTask) ([]jobs.Enqueued, error) {
	conn, err := inTransaction(tx)
	if err == nil && s.db == nil {
		err = errNotMade
	}
	if err != nil {
		return nil, &opError{"enqueue", err}
	}
	batch, err := newBatch(tasks)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	t := s.within(ctx, conn)
	t.callers = true
	var all []jobs.Enqueued
	if err = t.join(); err == nil {
		err = t.enqueue(batch)
	}
	if err == nil {
		all, err = t.enqueued(batch)
	}
	if err != nil {
		switch {
		case s.db.Dialect.Answer(err) == sqlkit.AnswerReadsOnly:
			err = fmt.Errorf("%w: this transaction only reads, and the task could not be written in it: begin one that may write, on a handle that may: %w", jobs.ErrInvalid, err)
		case s.db.Fault(ctx, err) != sqlkit.FaultNone:
			err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		}
		return nil, &opError{"enqueue", s.explain(err)}
	}
	return all, nil
}

// join makes a caller's transaction ready to write. What can be committed is in a transaction. For the rest, such as a
// connection, a statement checks that.
func (t *tx) join() error {
	if _, ends := t.Conn.(gorm.TxCommitter); !ends {
		if is, err := t.DB.Dialect.InTransaction(t.Tx); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("%w: this %T is in no transaction, and the task would exist at once: send BEGIN on it first, or use Enqueue", jobs.ErrInvalid, t.Conn)
		}
	}
	return t.DB.Dialect.Join(t.Tx, "UPDATE {meta} SET value = value WHERE 1 = 0")
}

// ours refuses a caller's transaction on another database: its tables have another namespace. The store's own is read
// again before that, as its tables may have been created again.
func (t *tx) ours(namespace string) error {
	own := t.s.namespace.Load()
	if own == nil || *own == namespace {
		return nil
	}
	now, err := t.s.Namespace(t.Ctx)
	if err == nil && now != namespace {
		err = fmt.Errorf("%w: this transaction is on the database of another store (%s, and this one is %s): begin it on the database that this store is on", jobs.ErrInvalid, namespace, now)
	}
	return err
}

// pooled is what a *sql.DB and a *sqlx.DB are, and no transaction.
type pooled interface{ SetMaxOpenConns(n int) }

// inTransaction returns the part of the caller's value that runs statements in its transaction, and refuses a value that would
// run each statement in a transaction of its own.
func inTransaction(handle any) (sqlkit.Conn, error) {
	if nilcheck.IsNil(handle) {
		return nil, fmt.Errorf("%w: the transaction is nil", jobs.ErrInvalid)
	}
	switch h := handle.(type) {
	case *gorm.DB:
		if h.Config == nil || h.Statement == nil {
			return nil, fmt.Errorf("%w: this *gorm.DB was not made by gorm.Open", jobs.ErrInvalid)
		}
		if _, ok := h.Statement.ConnPool.(gorm.TxCommitter); !ok {
			return nil, fmt.Errorf("%w: this *gorm.DB is not in a transaction", jobs.ErrInvalid)
		}
		return h.Statement.ConnPool, nil
	case pooled:
		return nil, fmt.Errorf("%w: a %T is not a transaction; begin one", jobs.ErrInvalid, handle)
	case sqlkit.Conn:
		return h, nil
	}
	return nil, fmt.Errorf("%w: %T is not a transaction", jobs.ErrInvalid, handle)
}
