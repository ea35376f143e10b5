package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// tx is one transaction, or one connection without a transaction, for the time of one call.
type tx struct {
	ctx  context.Context //nolint:containedctx // a tx lives as long as the call that it is made for
	s    *Store
	conn querier

	callers bool // somebody else begins and ends the transaction
	again   bool // a COMMIT of the same work has had no answer; see settle
}

// within is for statements on conn, whose transaction is ended elsewhere.
func (s *Store) within(ctx context.Context, conn querier) *tx { return &tx{ctx: ctx, s: s, conn: conn} }

// querier is the part of gorm.ConnPool that statements need; *sql.Conn and *sql.Tx have it too.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// tx runs fn in a transaction that may write. fn may be called several times, each time in a new
// transaction: it must start from nothing each time, and do nothing that a ROLLBACK does not undo.
func (s *Store) tx(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.repeat(ctx, op, s.writers, func(ctx context.Context, conn *sql.Conn) error {
		return s.transact(ctx, conn, fn)
	})
}

// sure runs fn as tx does, and again when the answer to COMMIT was lost. fn must be harmless when
// it runs once more after it was committed.
func (s *Store) sure(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.untilKnown(ctx, func() error { return s.tx(ctx, op, fn) })
}

// mostLost is how many answers to COMMIT may be missing one after the other: some servers and disks say at once that
// they do not know.
const mostLost = 10

func (s *Store) untilKnown(ctx context.Context, do func() error) error {
	for lost := 0; ; lost++ {
		err := do()
		if !errors.Is(err, errUnknownCommit) || lost == mostLost || pause(ctx, lost, s.dialect.nap()) != nil {
			return err
		}
	}
}

// read runs fn on a connection without a transaction: each statement sees its own moment.
func (s *Store) read(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.repeat(ctx, op, s.readers, func(ctx context.Context, conn *sql.Conn) error {
		return fn(s.within(ctx, conn))
	})
}

// view is read for what people look at: on connections that no work of replicas needs, or on a share of those of a
// program's handle. However many look, and however slowly, no decision waits for them. On a SQLite file they wait while its
// log is too large, see logGate.
func (s *Store) view(ctx context.Context, op string, fn func(t *tx) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	leave, err := s.share.enter(ctx)
	if err != nil {
		return &opError{op, fmt.Errorf("%w: other reads have the connections: %w", jobs.ErrUnavailable, err)}
	}
	defer leave()
	left, err := s.gate.enter(ctx, func(ctx context.Context, once func(context.Context, *sql.Conn) error) error {
		return s.borrow(ctx, s.views, once)
	})
	if err != nil {
		return &opError{op, fmt.Errorf("%w: reads wait until the write-ahead log is in the database: %w", jobs.ErrUnavailable, err)}
	}
	defer left()
	return s.repeat(ctx, op, s.views, func(ctx context.Context, conn *sql.Conn) error {
		return fn(s.within(ctx, conn))
	})
}

// autocommit runs fn on a connection that may write; each statement is a transaction of its own.
// Statements may run twice when an answer is lost: only for those that may.
func (s *Store) autocommit(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.repeat(ctx, op, s.writers, func(ctx context.Context, conn *sql.Conn) error {
		return fn(s.within(ctx, conn))
	})
}

// keep is autocommit for what keeps a session and its attempts, on connections that no other work takes:
// where others hold all, or a new one takes long, that would be too late.
func (s *Store) keep(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.untilKnown(ctx, func() error {
		return s.repeat(ctx, op, s.vital, func(ctx context.Context, conn *sql.Conn) error {
			return s.dialect.single(ctx, s, conn, fn)
		})
	})
}

// ownBound is up to when a context's deadline is taken for one of the call. A later one is of something longer, such as
// the attempt of a handler that enqueues.
const ownBound = time.Minute

// bound gives a call its time where the context does not.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= ownBound {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

func (s *Store) repeat(ctx context.Context, op string, db *gorm.DB, once func(context.Context, *sql.Conn) error) error {
	if s.dialect == nil {
		return &opError{op, errNotMade}
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var passing error // of the try before
	for n := 0; ; n++ {
		err := s.borrow(ctx, db, once)
		fault := s.fault(ctx, err)
		if fault == faultPassing {
			passing = err
			if err = pause(ctx, n, s.dialect.nap()); err == nil {
				continue
			}
		}
		if passing != nil && ctx.Err() != nil && fault != faultNone && !errors.Is(err, errUnknownCommit) {
			err = fmt.Errorf("%w, after %w", err, passing) // the time ran out, which is not why
		}
		switch {
		case err == nil:
			return nil
		case fault == faultNone || errors.Is(err, jobs.ErrUnavailable):
			return &opError{op, s.explain(err)}
		default:
			return &opError{op, fmt.Errorf("%w: %w", jobs.ErrUnavailable, s.file.full(err))}
		}
	}
}

// pause waits a random time, longer with each try up to most, so that those who collided do not meet again.
func pause(ctx context.Context, n int, most time.Duration) error {
	longest := min(4*time.Millisecond<<min(n, 10), most)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest)):
		return nil
	}
}

func (s *Store) borrow(ctx context.Context, db *gorm.DB, once func(context.Context, *sql.Conn) error) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		err = s.dialect.unreachable(err)
		if s.fault(ctx, err) == faultNone && !errors.Is(err, jobs.ErrUnavailable) { // a refusal of us, such as a password that was changed, and of no statement
			err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		}
		return err
	}
	defer conn.Close()
	err = once(ctx, conn)
	// What was committed to a file without a name is lost with it, and what such a file says is of no use.
	if lost := s.file.holds(); lost != nil {
		return lost
	}
	return err
}

func (s *Store) transact(ctx context.Context, conn *sql.Conn, fn func(t *tx) error) error {
	if err := s.dialect.begin(ctx, conn); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			rollback(ctx, conn)
		}
	}()
	if err := fn(s.within(ctx, conn)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.dialect.commit(ctx, conn); err != nil {
		return err
	}
	open = false
	return nil
}

// rollback runs also when ctx is over. A connection that cannot be rolled back is thrown away.
func rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// exec runs a statement and returns the rows affected. On MySQL a caller's handle may count changed
// rows, not found ones: never write a value that may be there already and read the count as proof.
func (t *tx) exec(text string, args ...any) (rows int64, err error) {
	result, err := t.conn.ExecContext(t.ctx, t.s.words.Replace(text), t.s.dialect.args(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls each for every row, in order. each must not use the transaction.
func (t *tx) query(text string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := t.conn.QueryContext(t.ctx, t.s.words.Replace(text), t.s.dialect.args(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads the first row into dest; found is false if there is none.
func (t *tx) one(text string, args []any, dest ...any) (found bool, err error) {
	err = t.query(text, args, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(dest...)
	})
	return found, err
}

// now is the database's time.
func (t *tx) now() (time.Time, error) { return t.s.dialect.now(t) }
