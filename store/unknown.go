package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// errMoved: a row was no longer what this transaction had read before. The transaction starts again
// with what the row is now.
var errMoved = errors.New("a row was changed by somebody else in between")

// errUnknownCommit: COMMIT was sent and its answer was lost. The caller settles it by a locking
// read of what it wrote, in a new transaction: the lock waits for a COMMIT still on its way.
var errUnknownCommit = fmt.Errorf("the answer to COMMIT was lost: %w", jobs.ErrUnavailable)

// settle runs fn as tx does, again when rows moved under it, and settles a COMMIT whose answer was
// lost: committed asks, with locking reads in a transaction on another connection, whether fn's
// rows are there. If they are, it is as if the answer had come; if not, nothing has happened, and
// fn runs once more. Without committed it runs again at once, and finds out itself: t.again says so.
func (s *Store) settle(ctx context.Context, op string, fn func(t *tx) error, committed func(t *tx) (bool, error)) error {
	lost := 0
	for moved := 0; ; {
		err := s.tx(ctx, op, func(t *tx) error { t.again = lost > 0; return fn(t) })
		switch {
		case errors.Is(err, errMoved) && moved < 10:
			moved++
		case errors.Is(err, errMoved):
			return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		case errors.Is(err, errUnknownCommit) && lost < 3:
			lost++
			if committed == nil {
				continue
			}
			var is bool
			asked := s.tx(ctx, op+", settling", func(t *tx) (err error) { is, err = committed(t); return err })
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
