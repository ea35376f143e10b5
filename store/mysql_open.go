package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// sessionSettings hold on every connection that Open makes.
//
// A client that freezes inside a transaction stops all who need its rows; the server frees them
// when wait_timeout has passed, or idle_transaction_timeout, which only MariaDB has: it runs what MySQL
// reads as a comment. Text and integers need a strict mode, else they are cut silently.
var sessionSettings = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION wait_timeout=5, innodb_lock_wait_timeout=2, autocommit=1 /*M! , idle_transaction_timeout=1 */, " +
		"sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
}

func openMySQL(ctx context.Context, dsn string, o Options) (*Store, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: mysql: %w", err) // the parser does not repeat the DSN and its password
	}
	if c.DBName == "" {
		return nil, fmt.Errorf("store: mysql at %s: the DSN names no database", c.Addr)
	}
	c.ClientFoundRows = true
	c.InterpolateParams = true
	c.CheckConnLiveness = true
	c.MultiStatements = false
	c.Collation = "utf8mb4_bin"
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.Logger = &mysql.NopLogger{} // every error is returned
	if o.TLS != nil {
		c.TLS = o.TLS
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("store: mysql at %s: %w", c.Addr, err)
	}
	db := sql.OpenDB(settled{connector, c.TLS})
	conns := cmp.Or(o.MaxConns, 16)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(3 * time.Second) // before wait_timeout ends them
	dial := mysqlDialect{address: c.Addr}
	s, err := assembleMySQL(ctx, db, dial, o)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s.opened = []*sql.DB{db}
	return s, nil
}

func assembleMySQL(ctx context.Context, db *sql.DB, dial mysqlDialect, o Options) (*Store, error) {
	handle, err := openGorm(dial.gorm(db))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s, err := build(handle, handle, dial, o)
	if err != nil {
		return nil, err
	}
	if err := s.read(ctx, "open", func(t *tx) error { return dial.check(t, true) }); err != nil {
		return nil, err
	}
	return s, nil
}

// settled is a connector whose connections have sessionSettings.
type settled struct {
	driver.Connector
	tls *tls.Config
}

func (c settled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	for _, statement := range sessionSettings {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
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
