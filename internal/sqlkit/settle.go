package sqlkit

import (
	"context"
	"errors"
)

// ErrMoved: a row was no longer what this transaction had read before. The transaction starts again
// with what the row is now.
var ErrMoved = errors.New("a row was changed by another transaction in between")

// ErrUnknownCommit: COMMIT was sent and its answer was lost. The caller settles it by a locking
// read of what it wrote, in a new transaction: the lock waits for a COMMIT still on its way.
var ErrUnknownCommit = error(unavailable{errors.New("the answer to COMMIT was lost")})

// mostLost is how many answers to COMMIT may be missing one after the other: some servers and disks say at once that
// they do not know.
const mostLost = 10

// Sure does what do does, and again when the answer to COMMIT was lost. It must be harmless when
// it is done once more after it was committed.
func (db *DB) Sure(ctx context.Context, do func() error) error {
	for lost := 0; ; lost++ {
		err := do()
		if !errors.Is(err, ErrUnknownCommit) || lost == mostLost || Pause(ctx, lost, db.Dialect.Nap()) != nil {
			return err
		}
	}
}

// Settle runs fn as Tx does, again when rows moved under it, and settles a COMMIT whose answer was
// lost: committed asks, with locking reads in a transaction on another connection, whether fn's
// rows are there. If they are, it is as if the answer had come; if not, nothing has happened, and
// fn runs once more. Without committed it runs again at once, and finds out itself: t.Again says so.
func (db *DB) Settle(ctx context.Context, fn func(t *Tx) error, committed func(t *Tx) (bool, error)) error {
	lost := 0
	for moved := 0; ; {
		err := db.Tx(ctx, func(t *Tx) error { t.Again = lost > 0; return fn(t) })
		switch {
		case errors.Is(err, ErrMoved) && moved < 10:
			moved++
		case errors.Is(err, ErrMoved):
			return unavailable{err}
		case errors.Is(err, ErrUnknownCommit) && lost < 3:
			lost++
			if committed == nil {
				continue
			}
			var is bool
			asked := db.Tx(ctx, func(t *Tx) (err error) { is, err = committed(t); return err })
			if asked != nil {
				return errors.Join(err, asked)
			}
			if is {
				return nil
			}
		default:
			return err
		}
	}
}
