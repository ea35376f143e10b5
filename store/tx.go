package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// tx is a transaction of the store, or one of its connections without a transaction, for the time of one call.
type tx struct {
	*sqlkit.Tx
	s       *Store
	callers bool // the caller begins and ends the transaction
}

// within is for statements on conn; its transaction is ended elsewhere.
func (s *Store) within(ctx context.Context, conn sqlkit.Conn) *tx {
	return &tx{Tx: s.db.With(ctx, conn), s: s}
}

// of adapts fn to a transaction of package sqlkit.
func (s *Store) of(fn func(t *tx) error) func(t *sqlkit.Tx) error {
	return func(t *sqlkit.Tx) error { return fn(&tx{Tx: t, s: s}) }
}

// sure runs fn in a transaction that may write, as [sqlkit.DB.Tx] does, and again when the answer to COMMIT was lost. fn must be harmless when
// it runs once more after it was committed.
func (s *Store) sure(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.do(op, func() error {
		return s.db.Sure(ctx, func() error { return s.db.Tx(ctx, s.of(fn)) })
	})
}

// settle runs fn as [sqlkit.DB.Settle] does.
func (s *Store) settle(ctx context.Context, op string, fn func(t *tx) error, committed func(t *tx) (bool, error)) error {
	var asks func(t *sqlkit.Tx) (bool, error)
	if committed != nil {
		asks = func(t *sqlkit.Tx) (bool, error) { return committed(&tx{Tx: t, s: s}) }
	}
	return s.do(op, func() error { return s.db.Settle(ctx, s.of(fn), asks) })
}

// settled is settle of what finds out itself whether it was committed before.
func (s *Store) settled(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.settle(ctx, op, fn, nil)
}

// read runs fn on a connection without a transaction: each statement sees its own moment.
func (s *Store) read(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.do(op, func() error { return s.db.On(s.readers).Autocommit(ctx, s.of(fn)) })
}

// view is read for lists and other displays: on connections that no work of replicas needs, or on a share of those of a
// program's handle. However many views run, and however slowly, no decision waits for them. On a SQLite file views wait while
// its log is too large, see logGate.
func (s *Store) view(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.viewing(ctx, op, func(ctx context.Context, db *sqlkit.DB) error { return db.Autocommit(ctx, s.of(fn)) })
}

// snapshot is view where all statements are to see one moment.
func (s *Store) snapshot(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.viewing(ctx, op, func(ctx context.Context, db *sqlkit.DB) error { return db.Snapshot(ctx, s.of(fn)) })
}

func (s *Store) viewing(ctx context.Context, op string, run func(ctx context.Context, db *sqlkit.DB) error) error {
	return s.do(op, func() error {
		ctx, cancel := s.db.Bound(ctx)
		defer cancel()
		leave, err := s.share.enter(ctx)
		if err != nil {
			return fmt.Errorf("%w: other reads have the connections: %w", jobs.ErrUnavailable, err)
		}
		defer leave()
		views := s.db.On(s.views)
		left, err := s.gate.enter(ctx, views.Borrow)
		if err != nil {
			return fmt.Errorf("%w: reads wait until the write-ahead log is in the database: %w", jobs.ErrUnavailable, err)
		}
		defer left()
		return run(ctx, views)
	})
}

// autocommit runs fn on a connection that may write; each statement is a transaction of its own.
// Statements may run twice when an answer is lost: use it only for statements that may.
func (s *Store) autocommit(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.do(op, func() error { return s.db.Autocommit(ctx, s.of(fn)) })
}

// keep is autocommit for the writes that renew a session and its attempts, on connections that no other work takes:
// waiting for a free or a new connection could make them too late.
func (s *Store) keep(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.do(op, func() error {
		vital := s.db.On(s.vital)
		return vital.Sure(ctx, func() error { return vital.Single(ctx, s.of(fn)) })
	})
}

// reading is a method of Store that runs fn, such as view and read.
type reading func(ctx context.Context, op string, fn func(t *tx) error) error

// get is what fn reads.
func get[V any](ctx context.Context, by reading, op string, fn func(t *tx) (V, error)) (v V, err error) {
	err = by(ctx, op, func(t *tx) (err error) { v, err = fn(t); return err })
	if err != nil {
		v = *new(V)
	}
	return v, err
}

// begin starts a deciding transaction. One statement reads whether its session is live, whether everything is paused, and the database's time,
// from which judge makes the moment. It takes no lock: a session may be declared dead before this transaction commits, and Reap finds
// what the transaction then leaves.
//
// It fails with ledger.ErrSessionDead for a session that was declared dead, or never existed.
func (t *tx) begin(session string, judge ledger.Judge) (is begun, err error) {
	var dead bool
	var at sql.NullInt64
	var said []byte
	found, err := t.One("SELECT dead, config, {now}, (SELECT said FROM {pause} WHERE id=0) FROM {sessions} WHERE id=?", []any{session}, &dead, &is.config, &at, &said)
	if err == nil && (!found || dead) {
		err = ledger.ErrSessionDead
	}
	database := fromMicros(at.Int64)
	if err != nil {
		return is, err
	}
	if !at.Valid {
		database, err = t.Now()
	} else {
		is.behind = time.Since(database)
	}
	if err != nil {
		return is, err
	}
	is.paused = t.s.notePause(said, database)
	is.now, err = judged(judge, database)
	return is, err
}

// begun is a deciding transaction that has begun.
type begun struct {
	now    time.Time
	paused ledger.Pause  // everything
	config int64         // number of the session's configuration
	behind time.Duration // the database's clock, behind this process's; 0 where they are one
}

// judged is what judge makes of the database's time.
func (t *tx) judged(judge ledger.Judge) (now time.Time, err error) {
	if now, err = t.Now(); err != nil {
		return now, err
	}
	return judged(judge, now)
}

func judged(judge ledger.Judge, database time.Time) (now time.Time, err error) {
	now, err = judge(database)
	return now.UTC().Truncate(time.Microsecond), err
}

// do adds to an error which method of the store failed, what it means, and what to do about it.
func (s *Store) do(op string, what func() error) error {
	if s.db == nil {
		return &opError{op, errNotMade}
	}
	err := what()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlkit.ErrUnavailable) && !errors.Is(err, jobs.ErrUnavailable):
		if s.file != nil {
			err = s.file.Explain(err)
		}
		err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	default:
		err = s.explain(err)
	}
	return &opError{op, err}
}

// explain adds what to do about missing tables.
func (s *Store) explain(err error) error {
	if errors.Is(err, ErrSchema) || s.db.Dialect.Answer(err) != sqlkit.AnswerNoTable {
		return err
	}
	return fmt.Errorf("%w: %w: call Migrate first, or run \"scheduler migrate up\"", ErrSchema, err)
}
