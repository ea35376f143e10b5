package sqllock

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// sessionSettings bound how long a transaction may keep the rows of others' keys when its client has
// frozen or was cut off: 1 s on MariaDB, which runs what MySQL reads as a comment, and 5 s on MySQL.
const sessionSettings = "SET SESSION wait_timeout = 5, SESSION innodb_lock_wait_timeout = 2 /*M! , SESSION idle_transaction_timeout = 1 */"

// Open returns a handle of a MySQL or MariaDB database for [New], and does not connect. settings are
// those of TLS; nil leaves it to the DSN.
//
// Unlike a handle of your own, it bounds all waiting: a server that does not answer is given up after
// 5 s (timeout, readTimeout and writeTimeout of the DSN change that), also at COMMIT, where a context
// does not help; and the server ends what a frozen process has begun. An error of a connection says in
// plain words why it was refused.
func Open(dsn string, settings *tls.Config) (*sql.DB, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqllock: %w", err) // the parser does not repeat the DSN and its password
	}
	if settings != nil {
		c.TLS = settings
	}
	c.InterpolateParams = true // one round trip instead of two
	c.Timeout = cmp.Or(c.Timeout, openLimit)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, openLimit)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, openLimit)
	c.Logger = &mysql.NopLogger{} // every error is returned
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("sqllock: mysql at %s: %w", c.Addr, err)
	}
	db := sql.OpenDB(settled{connector, c.TLS})
	db.SetMaxIdleConns(16)
	db.SetConnMaxIdleTime(3 * time.Second) // before wait_timeout ends them
	return db, nil
}

// settled is a connector whose connections have sessionSettings.
type settled struct {
	sqldriver.Connector
	tls *tls.Config
}

func (c settled) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	if _, err := conn.(sqldriver.ExecerContext).ExecContext(ctx, sessionSettings, nil); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", sessionSettings, err)
	}
	return conn, nil
}

// explain says what the server does not.
func (c settled) explain(err error) error {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == accessDenied {
		return handshake.Denied(err, c.tls)
	}
	return handshake.Explain(err, c.tls != nil)
}

const accessDenied = 1045
