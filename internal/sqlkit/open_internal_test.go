package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// refusing returns a DB of a server that closes each connection while it is being opened, or refuses it, and how often one was tried.
func refusing(t *testing.T, refuse error) (db *DB, dials *int) {
	t.Helper()
	dials = new(int)
	c := mysql.NewConfig()
	c.Logger = &mysql.NopLogger{}
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		*dials++
		client, server := net.Pipe()
		server.Close()
		return client, refuse
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { pool.Close() })
	return New(pool, MySQL{}, "", nil), dials
}

// A connection that the server closed while it was being opened is tried a few times: nothing was sent on it. One that is refused is not.
func TestAConnectionIsOpenedAgain(t *testing.T) {
	db, dials := refusing(t, nil)
	err := db.Tx(t.Context(), func(*Tx) error { return nil })
	if *dials != DeadConns+1 || !errors.Is(err, ErrUnavailable) || !errors.Is(err, driver.ErrBadConn) || !errors.Is(err, mysql.ErrInvalidConn) {
		t.Errorf("closed, after %d dials: %v", *dials, err)
	}
	db, dials = refusing(t, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	err = db.Tx(t.Context(), func(*Tx) error { return nil })
	if *dials != 1 || !errors.Is(err, ErrUnavailable) || errors.Is(err, driver.ErrBadConn) {
		t.Errorf("refused, after %d dials: %v", *dials, err)
	}
}
