package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// sessionSettings hold on every connection that Open makes, but that those of heartbeats wait longer.
//
// A client that freezes inside a transaction blocks every transaction that needs its rows. The server frees them
// when wait_timeout has passed, on MariaDB much sooner. Text and integers need a strict mode, else they
// are cut silently.
var sessionSettings = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION wait_timeout=5, innodb_lock_wait_timeout=2, autocommit=1, " +
		"sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO' " + mysqlconn.IdleTransaction,
}

// Heartbeats have connections that open no transaction, and stay open from one beat to the next with a
// session_ttl up to 90 s: where each answer takes 200 ms a new one takes a second.
const (
	vitalConns = 2
	vitalIdle  = 30 * time.Second
	vitalWait  = "SET SESSION wait_timeout=60"
)

// A dial, and a read or write of a connection, end after that long where the DSN sets nothing else.
const (
	dialLimit   = 5 * time.Second
	answerLimit = 10 * time.Second
)

func (mysqlServer) open(ctx context.Context, dsn string, o Options) (*Store, error) {
	c, err := mysqlconn.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: mysql: %w", err)
	}
	if c.DBName == "" {
		return nil, fmt.Errorf("store: mysql at %s: the DSN names no database", c.Addr)
	}
	c.ClientFoundRows = true
	c.CheckConnLiveness = true
	c.MultiStatements = false
	c.Collation = "utf8mb4_bin"
	c.Timeout = cmp.Or(c.Timeout, dialLimit)
	var opened closers
	open := func(conns int, more ...string) (pool *sql.DB) {
		if err == nil {
			pool, err = mysqlconn.Open(c, o.TLS, conns, answerLimit, append(slices.Clone(sessionSettings), more...)...)
		}
		if err == nil {
			pool.SetMaxOpenConns(conns)
			opened = append(opened, pool)
		}
		return pool
	}
	db, vital, views := open(cmp.Or(o.MaxConns, 16)), open(vitalConns, vitalWait), open(viewConns)
	if err != nil {
		_ = opened.Close()
		return nil, fmt.Errorf("store: %w", err)
	}
	vital.SetConnMaxIdleTime(vitalIdle)
	s, err := build(db, db, sqlkit.MySQL{}, o)
	if err == nil {
		s.db.Refused = func(_ context.Context, err error) error { return fmt.Errorf("mysql at %s: %w", c.Addr, err) }
		s.vital, s.views, s.opened = vital, views, opened
		err = s.read(ctx, "open", mysqlServer{}.check)
	}
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	return s, nil
}
