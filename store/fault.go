package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// fault is what an error means for the transaction that met it.
type fault int

const (
	faultNone    fault = iota // an answer, if not the one that was hoped for
	faultPassing              // nothing was committed, and another try may do better
	faultFinal                // nothing is known, and no further try
)

func (s *Store) fault(ctx context.Context, err error) fault {
	switch {
	case err == nil:
		return faultNone
	case errors.Is(err, errUnknownCommit):
		return faultFinal
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return faultFinal
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return faultPassing
	}
	return s.dialect.fault(err)
}

// explain says what to do about tables that are not there.
func (s *Store) explain(err error) error {
	if errors.Is(err, ErrSchema) || !s.dialect.noTable(err) {
		return err
	}
	return fmt.Errorf("%w: %w: call Migrate first, or run \"scheduler migrate up\"", ErrSchema, err)
}
