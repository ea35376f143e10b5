package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// What an error means for the transaction that met it: a conflict or a lost connection is worth another try, unless the
// time of the call is over or nothing is known; what the database answers is an answer.
func TestFaults(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	answer := func(number uint16) error { return fmt.Errorf("claim: %w", &mysql.MySQLError{Number: number}) }
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want Fault
	}{
		{t.Context(), nil, FaultNone},
		{over, nil, FaultNone},
		{t.Context(), errors.New("not found"), FaultNone},
		{t.Context(), answer(1062), FaultNone}, // duplicate key
		{t.Context(), answer(1146), FaultNone},
		{t.Context(), answer(1205), FaultConflict},
		{t.Context(), answer(1213), FaultConflict},
		{t.Context(), answer(1020), FaultConflict},
		{t.Context(), answer(1053), FaultLost},
		{t.Context(), answer(1290), FaultLost},
		{t.Context(), driver.ErrBadConn, FaultLost},
		{t.Context(), sql.ErrConnDone, FaultLost},
		{t.Context(), mysql.ErrInvalidConn, FaultLost},
		{t.Context(), fmt.Errorf("read: %w", io.EOF), FaultLost},
		{t.Context(), fmt.Errorf("read: %w", io.ErrUnexpectedEOF), FaultLost},
		{t.Context(), refused, FaultLost},
		{over, answer(1213), FaultFinal},
		{over, driver.ErrBadConn, FaultFinal},
		{over, errors.New("not found"), FaultFinal},
		{t.Context(), fmt.Errorf("read: %w", context.DeadlineExceeded), FaultFinal},
		{t.Context(), fmt.Errorf("read: %w", context.Canceled), FaultFinal},
		{t.Context(), fmt.Errorf("%w: %w", ErrUnknownCommit, driver.ErrBadConn), FaultFinal},
	} {
		db := &DB{Dialect: MySQL{}}
		if got := db.Fault(c.ctx, c.err); got != c.want {
			t.Errorf("%v, with the call's time over %t: %d, want %d", c.err, c.ctx.Err() != nil, got, c.want)
		}
	}
}

// answering is a driver that answers each statement with an error, or with none. No server can be made to give all of these.
type answering struct{ err error }

func (a answering) Connect(context.Context) (driver.Conn, error) { return a, nil }
func (a answering) Driver() driver.Driver                        { return nil }
func (a answering) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("not needed") }
func (a answering) Begin() (driver.Tx, error)                    { return nil, errors.New("not needed") }
func (a answering) Close() error                                 { return nil }
func (a answering) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, a.err
}

// The outcome of COMMIT is known where the server says that it undid the transaction, and where nothing was sent.
func TestAnswersToCommit(t *testing.T) {
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{nil, false},
		{driver.ErrBadConn, false},
		{&mysql.MySQLError{Number: 1213}, false},
		{&mysql.MySQLError{Number: 1205}, false},
		{&mysql.MySQLError{Number: 1020}, false},
		{&mysql.MySQLError{Number: 1053}, true},
		{&mysql.MySQLError{Number: 1180}, true}, // an error during COMMIT
		{mysql.ErrInvalidConn, true},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
	} {
		db := sql.OpenDB(answering{c.err})
		defer db.Close()
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = MySQL{}.Commit(t.Context(), conn)
		if !errors.Is(err, c.err) || errors.Is(err, ErrUnknownCommit) != c.unknown {
			t.Errorf("of %v it says %v", c.err, err)
		}
	}
}

// second answers the second statement with an error.
type second struct {
	answering
	sent *int
}

func (s second) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s second) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if *s.sent++; *s.sent == 2 {
		return nil, s.err
	}
	return driver.ResultNoRows, nil
}

// A connection on which a transaction that reads did not begin is not used again: the next transaction would have its isolation level.
func TestAReadThatDidNotBegin(t *testing.T) {
	db := sql.OpenDB(second{answering{&mysql.MySQLError{Number: 1040}}, new(int)})
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := (MySQL{}).BeginRead(t.Context(), conn); MySQLNumber(err) != 1040 {
		t.Errorf("it says %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "SELECT 1"); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("the connection is still used: %v", err)
	}
}
