package sqllock

import (
	"crypto/tls"
	"database/sql"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
)

// sessionSettings bound how long a transaction may keep the rows of others' keys when its client has
// frozen or was cut off: 1 s on MariaDB, and 5 s on MySQL.
const sessionSettings = "SET SESSION wait_timeout = 5, SESSION innodb_lock_wait_timeout = 2 " + mysqlconn.IdleTransaction

// readCommitted is what transactions of mode lease ask for otherwise, each with a round trip.
const readCommitted = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

// idleConns is how many connections wait for work.
const idleConns = 16

// Open returns a handle of a MySQL or MariaDB database for [New], and does not connect. settings are
// those of TLS; nil leaves it to the DSN.
//
// Unlike a handle of your own, it bounds all waiting: a server that does not answer is given up after
// 5 s (timeout, readTimeout and writeTimeout of the DSN change that), also at COMMIT, where a context
// does not help; and the server ends what a frozen process has begun. An error of a connection says in
// plain words why it was refused.
func Open(dsn string, settings *tls.Config) (*sql.DB, error) {
	c, err := mysqlconn.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqllock: %w", err)
	}
	db, err := mysqlconn.Open(c, settings, idleConns, openLimit, sessionSettings, readCommitted)
	if err != nil {
		return nil, fmt.Errorf("sqllock: %w", err)
	}
	return db, nil
}
