package sqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// pinned is a connection of one holder. The goroutines of a session use and close it at the same time, which a
// sql.Conn does not allow: it checks that it is open, waits until it is closed, and continues with nil.
type pinned struct {
	*sql.Conn
	using *sync.RWMutex
}

func (p pinned) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.using.RLock()
	defer p.using.RUnlock()
	return p.Conn.ExecContext(ctx, query, args...)
}

func (p pinned) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.using.RLock()
	defer p.using.RUnlock()
	return p.Conn.QueryContext(ctx, query, args...)
}

// ask pings the connection. gone: it is closed, so what it held is free, or about to be.
//
// The end of ctx alone says nothing about the connection. The driver of MySQL answers with that end if it comes before the ping was
// sent, and leaves the connection as it is; if it comes while the answer is awaited, the driver closes the connection.
func (p pinned) ask(ctx context.Context) (gone bool, err error) {
	p.using.RLock()
	defer p.using.RUnlock()
	err = p.PingContext(ctx)
	ended := ctx.Err() != nil && errors.Is(err, ctx.Err())
	return err != nil && (!ended || !p.open()), err
}

// open reports whether the driver says that the connection is open. Where it does not tell, it counts as closed: a key that is given
// up needlessly is free, and its holder is told; one that is kept needlessly may have another holder.
func (p pinned) open() (open bool) {
	_ = p.Raw(func(conn any) error {
		v, tells := conn.(sqldriver.Validator)
		open = tells && v.IsValid()
		return nil
	})
	return open
}

// pin returns one in a transaction that is never committed while it holds something. The server ends it
// when it has been silent for a TTL.
func (s *session) pin(ctx context.Context, ttl time.Duration) (pinned, error) {
	return s.connect(ctx,
		"SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", // it locks as READ COMMITTED does
		fmt.Sprintf("SET SESSION wait_timeout = %d, SESSION innodb_lock_wait_timeout = %d, SESSION autocommit = 0"+
			" /*M! , SESSION idle_transaction_timeout = 0 */", ttl/time.Second, waitFor)) // MariaDB's; a comment for MySQL
}

// connect returns a connection that has run statements, which may run twice. One that turns out to be closed is replaced.
func (s *session) connect(ctx context.Context, statements ...string) (p pinned, err error) {
	for n := 0; ; n++ {
		p.using = new(sync.RWMutex)
		if p.Conn, err = s.DB.Open(ctx); err != nil {
			p, err = pinned{}, s.Refused(ctx, err)
		} else if err = run(ctx, p, statements...); err == nil {
			return p, nil
		}
		again := errors.Is(err, sqldriver.ErrBadConn)
		if p.Conn != nil {
			again = again || s.Fault(ctx, err) == sqlkit.FaultLost
			p.drop()
		}
		if !again || n == sqlkit.DeadConns || sqlkit.Pause(ctx, n, nap) != nil {
			return pinned{}, err
		}
	}
}

// full says of a wait for a connection that was in vain why: ctx ended while the handle's limit kept all others out.
func full(ctx context.Context, db *sql.DB, err error) error {
	stats := db.Stats()
	if ctx.Err() == nil || stats.MaxOpenConnections == 0 || stats.InUse < stats.MaxOpenConnections {
		return err
	}
	return fmt.Errorf("all %d connections that the handle may open are in use; in mode row the session and each lock that is held or waited for keep one: "+
		"give SetMaxOpenConns three more than these locks, or 0 for no limit: %w", stats.MaxOpenConnections, err)
}

// run runs statements until one fails.
func run(ctx context.Context, on sqlkit.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// drop ends the connection for good, and with it what it holds; it must not go back to the pool
// with its settings.
func (p pinned) drop() {
	p.using.Lock()
	defer p.using.Unlock()
	_ = p.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = p.Close()
}
