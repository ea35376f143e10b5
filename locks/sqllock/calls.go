package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// calls are the statements of one session. A deadlock, a lock timeout or a busy file is tried again
// until the context ends: the statement did nothing.
type calls struct {
	db        *sql.DB
	dialect   Dialect
	words     words
	namespace string
	session   string
	owner     string
}

// execer is a handle, a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (c *calls) exec(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	statement = c.words.replace.Replace(statement)
	return again(ctx, func() (sql.Result, error) { return c.db.ExecContext(ctx, statement, args...) })
}

// again repeats what the server says that it has not done.
func again[T any](ctx context.Context, do func() (T, error)) (T, error) {
	for {
		v, err := do()
		if err == nil || !undone(err) {
			return v, err
		}
		if !pause(ctx) {
			return v, err
		}
	}
}

// pause waits some milliseconds; false if ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(time.Millisecond + rand.N(4*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// undone reports whether err says that a statement was rolled back because of others: a deadlock, a
// lock timeout, a record that changed, a file that is busy.
func undone(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return my.Number == 1213 || my.Number == 1205 || my.Number == 1020
	}
	var code interface{ Code() int } // of modernc.org/sqlite, which importers of this package may not use
	return errors.As(err, &code) && (code.Code()&0xff == 5 || code.Code()&0xff == 6)
}

// mint takes n tokens and returns the first of them. Who mints before it holds the key does so in
// the transaction that takes it: else a smaller token could be granted after a larger one.
func (c *calls) mint(ctx context.Context, on execer, n int) (driver.Token, error) {
	const next = `UPDATE {marks} SET token = %s({greatest}(token, {now}) + ?) WHERE namespace = ?`
	if c.dialect == SQLite {
		last, err := c.bumpSQLite(ctx, on, fmt.Sprintf(next, ""), n)
		return driver.Token(last - int64(n) + 1), err
	}
	// LAST_INSERT_ID(expr) hands the value back with the answer.
	res, err := on.ExecContext(ctx, c.words.replace.Replace(fmt.Sprintf(next, "LAST_INSERT_ID")), n, c.namespace)
	if err != nil {
		return 0, err
	}
	last, err := res.LastInsertId()
	return driver.Token(last - int64(n) + 1), err
}

// tx runs do in a transaction, again as a whole if the server undid it.
func (c *calls) tx(ctx context.Context, do func(tx *sql.Tx) error) error {
	_, err := again(ctx, func() (struct{}, error) {
		o := &sql.TxOptions{}
		if c.dialect == MySQL {
			o.Isolation = sql.LevelReadCommitted
		}
		tx, err := c.db.BeginTx(ctx, o)
		if err != nil {
			return struct{}{}, err
		}
		defer tx.Rollback()
		if err := do(tx); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, tx.Commit()
	})
	return err
}

// holding is a row of a held key.
type holding struct {
	info        driver.Info
	acquisition string
}

// read returns the rows of {leases} or {holders} that a condition selects.
func (c *calls) read(ctx context.Context, on execer, table, where string, args ...any) (map[string]holding, error) {
	statement := c.words.replace.Replace(`SELECT name, token, session_id, acquisition, owner, meta, since FROM ` + table + ` WHERE ` + where)
	return again(ctx, func() (map[string]holding, error) {
		rows, err := on.QueryContext(ctx, statement, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		found := map[string]holding{}
		for rows.Next() {
			var h holding
			var since int64
			if err := rows.Scan(&h.info.Key, &h.info.Token, &h.info.Session, &h.acquisition, &h.info.Owner, &h.info.Meta, &since); err != nil {
				return nil, err
			}
			h.info.Since = time.UnixMicro(since).UTC()
			found[h.info.Key] = h
		}
		return found, rows.Err()
	})
}

// names returns one column of text.
func (c *calls) names(ctx context.Context, on execer, statement string, args ...any) (map[string]bool, error) {
	statement = c.words.replace.Replace(statement)
	return again(ctx, func() (map[string]bool, error) {
		rows, err := on.QueryContext(ctx, statement, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		found := map[string]bool{}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return nil, err
			}
			found[name] = true
		}
		return found, rows.Err()
	})
}

// marks is n question marks with commas between them.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// either is n conditions "(name=? AND token=?)", of which one must hold.
func either(held []driver.Held) (condition string, args []any) {
	for _, h := range held {
		args = append(args, h.Key, int64(h.Token))
	}
	return "(" + strings.TrimSuffix(strings.Repeat("(name=? AND token=?) OR ", len(held)), " OR ") + ")", args
}

func keysOf(wants []driver.Want) []any {
	keys := make([]any, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	return keys
}

// beyond is the first string after all that start with prefix; "" if there is none.
func beyond(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
