package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// ErrUnavailable: nothing is known about what was asked. It adds nothing to the text of what went wrong.
var ErrUnavailable = errors.New("the database is unavailable")

type unavailable struct{ error }

func (e unavailable) Unwrap() error        { return e.error }
func (e unavailable) Is(target error) bool { return target == ErrUnavailable }

// Tx runs fn in a transaction that may write. fn may be called several times, each time in a new
// transaction: it must start from nothing each time, and do nothing that a ROLLBACK does not undo.
func (db *DB) Tx(ctx context.Context, fn func(t *Tx) error) error {
	return db.Repeat(ctx, func(ctx context.Context, conn *sql.Conn) error { return db.transact(ctx, conn, fn) })
}

// Autocommit runs fn on a connection without a transaction: each statement sees its own moment, and is a transaction of
// its own. Statements may run twice when an answer is lost: only for those that may.
func (db *DB) Autocommit(ctx context.Context, fn func(t *Tx) error) error {
	return db.Repeat(ctx, func(ctx context.Context, conn *sql.Conn) error { return fn(db.With(ctx, conn)) })
}

// Single is Autocommit where that saves round trips, and else a transaction, whose BEGIN waits in its turn, as a write by itself
// does not.
func (db *DB) Single(ctx context.Context, fn func(t *Tx) error) error {
	if db.Dialect.LocksRows() {
		return db.Autocommit(ctx, fn)
	}
	return db.Tx(ctx, fn)
}

// Snapshot runs fn in a transaction that only reads: all its statements see one moment. fn may be called several times, and starts
// from nothing each time.
func (db *DB) Snapshot(ctx context.Context, fn func(t *Tx) error) error {
	return db.Repeat(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := db.Dialect.BeginRead(ctx, conn); err != nil {
			return err
		}
		defer rollback(ctx, conn)
		return fn(db.With(ctx, conn))
	})
}

// Repeat runs once on a connection, again as long as it meets what passes.
func (db *DB) Repeat(ctx context.Context, once func(ctx context.Context, conn *sql.Conn) error) error {
	ctx, cancel := db.Bound(ctx)
	defer cancel()
	var passing error // of the try before
	for n := 0; ; n++ {
		err := db.Borrow(ctx, once)
		fault := db.Fault(ctx, err)
		if fault == FaultConflict || fault == FaultLost && (db.Reconnect || errors.Is(err, driver.ErrBadConn) && n < DeadConns) {
			passing = err
			if err = Pause(ctx, n, db.Dialect.Nap()); err == nil {
				continue
			}
		}
		if passing != nil && outOfTime(ctx, err) && fault != FaultNone && !errors.Is(err, ErrUnknownCommit) {
			err = fmt.Errorf("%w, after %w", err, passing) // the time ran out, which is not why
		}
		if fault != FaultNone {
			err = unavailable{err}
		}
		return err
	}
}

// outOfTime: the time of ctx is over, or what failed found it over: a dial looks at the clock, and may do so before the timer of ctx.
func outOfTime(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
}

// DeadConns is how many connections of a pool may turn out to be dead one after the other: nothing was sent on them. A server
// closes all that are idle for long at the same time.
const DeadConns = 10

// ownBound is up to when a context's deadline is taken for one of the call. A later one is of something longer, such as
// the attempt of a handler that enqueues.
const ownBound = time.Minute

// Bound gives a call its time where the context does not.
func (db *DB) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, bounded := ctx.Deadline(); db.Timeout == 0 || bounded && time.Until(end) <= ownBound {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, db.Timeout)
}

// Pause waits a random time, longer with each try up to most, so that transactions that collided do not collide again.
func Pause(ctx context.Context, n int, most time.Duration) error {
	longest := min(4*time.Millisecond<<min(n, 10), most)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest)):
		return nil
	}
}

// Borrow runs once on a connection, whatever comes of it. Who waits for one gets it in the order of coming.
func (db *DB) Borrow(ctx context.Context, once func(ctx context.Context, conn *sql.Conn) error) error {
	conn, leave, err := db.connection(ctx)
	if err != nil {
		if db.Refused != nil {
			err = db.Refused(ctx, err)
		}
		if db.Fault(ctx, err) == FaultNone { // a refusal of us, such as a password that was changed, and of no statement
			err = unavailable{err}
		}
		return err
	}
	defer leave()
	err = once(ctx, conn)
	if db.Holds != nil {
		if lost := db.Holds(); lost != nil {
			return lost
		}
	}
	return err
}

// connection waits for one; leave returns it.
func (db *DB) connection(ctx context.Context) (conn *sql.Conn, leave func(), err error) {
	if db.line == nil {
		conn, err = db.Open(ctx)
		return conn, func() { _ = conn.Close() }, err
	}
	select {
	case db.line <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if conn, err = db.Open(ctx); err != nil {
		<-db.line
		return nil, nil, err
	}
	return conn, func() {
		_ = conn.Close()
		<-db.line
	}, nil
}

func (db *DB) transact(ctx context.Context, conn *sql.Conn, fn func(t *Tx) error) error {
	if err := db.Dialect.Begin(ctx, conn); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			rollback(ctx, conn)
		}
	}()
	if err := fn(db.With(ctx, conn)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.Dialect.Commit(ctx, conn); err != nil {
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

// Fault is what an error of a call with that context means.
func (db *DB) Fault(ctx context.Context, err error) Fault {
	switch {
	case err == nil:
		return FaultNone
	case errors.Is(err, ErrUnknownCommit):
		return FaultFinal
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return FaultFinal
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return FaultLost
	}
	return db.Dialect.Fault(err)
}
