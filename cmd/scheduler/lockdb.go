package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// openLockDB opens the database of locks that is not the store's. It does not connect.
func openLockDB(l config.MySQLLock) (*sql.DB, error) {
	c, err := mysql.ParseDSN(l.DSN)
	if err != nil {
		return nil, fmt.Errorf("lock.mysql.dsn: %w", err)
	}
	if l.TLS != nil {
		c.TLS = l.TLS
	}
	c.Logger = &mysql.NopLogger{} // what goes wrong is in the errors
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("lock.mysql.dsn: %w", err)
	}
	return sql.OpenDB(explained{connector, c.TLS}), nil
}

// explained is a connector that says in plain words why it cannot connect.
type explained struct {
	driver.Connector
	tls *tls.Config
}

func (c explained) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil {
		return conn, nil
	}
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == accessDenied {
		return nil, handshake.Denied(err, c.tls)
	}
	return nil, handshake.Explain(err, c.tls != nil)
}

const accessDenied = 1045
