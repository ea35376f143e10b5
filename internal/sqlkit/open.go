package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// Open returns a connection of the pool, or a new one. The error is also [driver.ErrBadConn] where the server closed one while it was
// being opened, as a busy server may: nothing was sent on it.
func (db *DB) Open(ctx context.Context) (*sql.Conn, error) {
	conn, err := db.Pool.Conn(ctx)
	if err != nil && ctx.Err() == nil && (errors.Is(err, mysql.ErrInvalidConn) || handshake.HungUp(err)) {
		err = unopened{err}
	}
	return conn, err
}

type unopened struct{ error }

func (e unopened) Unwrap() error        { return e.error }
func (e unopened) Is(target error) bool { return target == driver.ErrBadConn }
