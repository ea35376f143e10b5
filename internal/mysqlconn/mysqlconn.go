// Package mysqlconn opens databases of MySQL and MariaDB with the same settings on every connection.
package mysqlconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// IdleTransaction is how long, in seconds, MariaDB leaves a transaction open whose client is silent. MySQL
// reads it as a comment: it has no such limit, and ends the connection after wait_timeout.
const IdleTransaction = "/*M! , SESSION idle_transaction_timeout = 1 */"

// idleFor is how long a connection waits in the pool: less than any wait_timeout set here.
const idleFor = 3 * time.Second

// Parse reads a DSN. Its errors quote nothing of it, since that may be the password: the driver's parser may
// take it for the name of a network or for a value.
func Parse(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the DSN cannot be read; the form is user:password@tcp(host:3306)/database?options, with special characters of options as %XX")
	}
	return c, nil
}

// Open returns a handle with at most conns idle connections, and does not connect. Each connection has run the
// statements. Parameters become part of the text of a statement, which saves a round trip, until a text was
// sent so often that it is prepared. limit bounds each dial, read and write if c has none: at COMMIT a context
// does not help. settings are those of TLS; nil leaves it to c.
//
// An error of a connection explains why it was refused.
func Open(c *mysql.Config, settings *tls.Config, conns int, limit time.Duration, statements ...string) (*sql.DB, error) {
	c.InterpolateParams = true
	c.Timeout = cmp.Or(c.Timeout, limit)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, limit)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, limit)
	c.Logger = &mysql.NopLogger{} // every error is returned
	if settings != nil {
		c.TLS = settings
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql at %s: %w", c.Addr, err)
	}
	db := sql.OpenDB(settled{connector, c.TLS, statements})
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idleFor)
	return db, nil
}

// settled is a connector whose connections have run the statements.
type settled struct {
	driver.Connector
	tls        *tls.Config
	statements []string
}

func (c settled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	for _, statement := range c.statements {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return newPreparing(conn)
}

const accessDenied = 1045

// explain adds what the server does not say.
func (c settled) explain(err error) error {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == accessDenied {
		err = handshake.Denied(err, c.tls)
		if strings.Contains(answer.Message, "@'localhost'") {
			// A new MariaDB has ''@'localhost', which comes before any account @'%'.
			return fmt.Errorf("%w; or an account without a name stands before it, as in a fresh MariaDB: DROP USER ''@'localhost'", err)
		}
		return err
	}
	return handshake.Explain(err, c.tls != nil)
}
