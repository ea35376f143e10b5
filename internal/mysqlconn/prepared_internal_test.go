package mysqlconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// forgotten is a statement that the server has no more, or that it fails.
type forgotten struct {
	mysqlStatement
	err    error
	closed int
}

func (f *forgotten) Close() error { f.closed++; return nil }
func (f *forgotten) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return nil, f.err
}
func (f *forgotten) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return nil, f.err
}

// A statement that the server has no more did nothing, and is sent as a text; any other error is the statement's.
func TestForgottenStatements(t *testing.T) {
	t.Parallel()
	c, err := Parse(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(c, nil, 1, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for number, again := range map[uint16]bool{unknownStatement: true, needsAnother: true, 1213: false} {
		for _, run := range map[string]func() error{
			"SELECT ?": func() error { return conn.QueryRowContext(t.Context(), "SELECT ?", 1).Scan(new(sql.NullInt64)) },
			"DO ?":     func() error { _, err := conn.ExecContext(t.Context(), "DO ?", 1); return err },
		} {
			broken := &forgotten{err: &mysql.MySQLError{Number: number}}
			if err := conn.Raw(func(inner any) error {
				p := inner.(*preparing)
				p.kept["SELECT ?"], p.kept["DO ?"] = broken, broken
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			err := run()
			if again && (err != nil || broken.closed != 1) || !again && (!errors.Is(err, broken.err) || broken.closed != 0) {
				t.Errorf("%d: %v, closed %d times", number, err, broken.closed)
			}
		}
	}
}
