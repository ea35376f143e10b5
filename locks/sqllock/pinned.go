package sqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"time"
)

// pinned is a connection that is nobody else's, in a transaction that is never committed but to
// give a key back. The server ends it when it has been silent for a TTL.
type pinned struct{ *sql.Conn }

func (c *calls) pin(ctx context.Context, ttl time.Duration) (pinned, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return pinned{}, err
	}
	p := pinned{conn}
	for _, setting := range []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		fmt.Sprintf("SET SESSION wait_timeout = %d, SESSION innodb_lock_wait_timeout = 1, SESSION autocommit = 0"+
			" /*M! , SESSION idle_transaction_timeout = 0 */", ttl/time.Second), // MariaDB's; a comment for MySQL
	} {
		if _, err := conn.ExecContext(ctx, setting); err != nil {
			p.drop()
			return pinned{}, err
		}
	}
	return p, nil
}

// drop ends the connection for good, and with it what it holds; it must not go back to the pool
// with its settings.
func (p pinned) drop() {
	_ = p.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = p.Close()
}
