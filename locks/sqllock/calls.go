package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	turn      chan struct{} // of who takes keys
}

// execer is a handle, a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (c *calls) exec(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	statement = c.words.replace.Replace(statement)
	if c.dialect == SQLite {
		return c.execSQLite(ctx, statement, args...)
	}
	return again(ctx, func() (sql.Result, error) {
		res, err := c.db.ExecContext(ctx, statement, args...)
		if err != nil {
			err = c.full(ctx, err)
		}
		return res, err
	})
}

// again repeats what the server says that it has not done.
func again[T any](ctx context.Context, do func() (T, error)) (T, error) {
	for round := 0; ; round++ {
		v, err := do()
		if err == nil || !undone(err) {
			return v, err
		}
		if !pause(ctx, round) {
			return v, err
		}
	}
}

// pause waits a little, longer from round to round, up to 30 ms; false if ctx ended.
func pause(ctx context.Context, round int) bool {
	timer := time.NewTimer(time.Millisecond + rand.N(2*time.Millisecond<<min(round, 4)))
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
	if n := number(err); n != 0 {
		return n == 1213 || n == 1205 || n == 1020
	}
	var code interface{ Code() int } // of modernc.org/sqlite, which importers of this package may not use
	return errors.As(err, &code) && (code.Code()&0xff == 5 || code.Code()&0xff == 6)
}

// number is that of a MySQL error; 0 if err is something else.
func number(err error) uint16 {
	var my *mysql.MySQLError
	if !errors.As(err, &my) {
		return 0
	}
	return my.Number
}

// gone reports whether err says that there is no such connection.
func gone(err error) bool { return number(err) == 1094 }

// mint takes n tokens and returns the first of them. Who mints before it holds the key does so in
// the transaction that takes it: else a smaller token could be granted after a larger one.
func (c *calls) mint(ctx context.Context, on execer, n int) (_ driver.Token, err error) {
	const next = `UPDATE {marks} SET token = %s({greatest}(token, {now}) + ?) WHERE namespace = ?`
	var last int64
	if c.dialect == SQLite {
		last, err = c.bumpSQLite(ctx, on, fmt.Sprintf(next, ""), n)
	} else {
		var res sql.Result // with the value that LAST_INSERT_ID(value) leaves in it
		if res, err = on.ExecContext(ctx, c.words.replace.Replace(fmt.Sprintf(next, "LAST_INSERT_ID")), n, c.namespace); err == nil {
			last, err = res.LastInsertId()
		} else {
			err = c.full(ctx, err)
		}
	}
	if err == nil && last == 0 {
		err = fmt.Errorf("the mark of namespace %s is gone", c.namespace)
	}
	return driver.Token(last) - driver.Token(n) + 1, err
}

// ask is again for what runs by itself; a part of a transaction is tried again with the whole.
func ask[T any](ctx context.Context, c *calls, on execer, do func() (T, error)) (T, error) {
	if on != execer(c.db) {
		return do()
	}
	return again(ctx, do)
}

// queue waits for the session's turn to take keys: its callers would only race with each other, and
// most find after a wait that the key has gone. It reports whether it waited.
func (c *calls) queue(ctx context.Context) (waited bool, err error) {
	select {
	case c.turn <- struct{}{}:
		return false, nil
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// holding is a row of a held key.
type holding struct {
	info        driver.Info
	acquisition string
	left        time.Duration // see left
}

// live: a row that is not live is held by nobody.
func (h holding) live() bool { return h.left > 0 }

// left says of a row of a table for how many µs its holder has it, if he does nothing; in {rows} that is
// for as long as his transaction lasts.
var left = map[string]string{
	"{leases}": `COALESCE((SELECT s.expires_at - {now} FROM {sessions} s WHERE s.id = session_id AND s.dead = 0), 0)`,
	"{rows}":   `token`,
}

// read returns the rows of {leases} or {rows} that a condition selects.
func (c *calls) read(ctx context.Context, on execer, table, where string, args ...any) (map[string]holding, error) {
	statement := c.words.replace.Replace(`SELECT name, token, session_id, acquisition, owner, meta, since, ` + left[table] + ` FROM ` + table + ` WHERE ` + where)
	return ask(ctx, c, on, func() (map[string]holding, error) {
		rows, err := on.QueryContext(ctx, statement, args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		found := map[string]holding{}
		for rows.Next() {
			var h holding
			var since, left int64
			if err := rows.Scan(&h.info.Key, &h.info.Token, &h.info.Session, &h.acquisition, &h.info.Owner, &h.info.Meta, &since, &left); err != nil {
				return nil, err
			}
			h.info.Since, h.left = time.UnixMicro(since).UTC(), time.Duration(left)*time.Microsecond
			found[h.info.Key] = h
		}
		return found, rows.Err()
	})
}

// names returns one column of text.
func (c *calls) names(ctx context.Context, on execer, statement string, args ...any) (map[string]bool, error) {
	statement = c.words.replace.Replace(statement)
	return ask(ctx, c, on, func() (map[string]bool, error) {
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

// still says which of held the rows say are this session's.
func (c *calls) still(held []driver.Held, rows map[string]holding) []bool {
	still := make([]bool, len(held))
	for i, h := range held {
		row, there := rows[h.Key]
		still[i] = there && row.live() && row.info.Token == h.Token && row.info.Session == c.session
	}
	return still
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

// among is the condition for some keys of the namespace, by primary key, and its arguments.
func (c *calls) among(keys []string) (condition string, args []any) {
	args = []any{c.namespace}
	for _, key := range keys {
		args = append(args, key)
	}
	return `namespace = ? AND name IN (` + marks(len(keys)) + `)`, args
}

func keysOf(wants []driver.Want) []string {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	return keys
}

func keysHeld(held []driver.Held) []string {
	keys := make([]string, len(held))
	for i, h := range held {
		keys[i] = h.Key
	}
	return keys
}

// without is those of wants that have no row.
func without(wants []driver.Want, rows map[string]holding) []driver.Want {
	return slices.DeleteFunc(slices.Clone(wants), func(w driver.Want) bool { _, there := rows[w.Key]; return there })
}

// rounds is how often TryAcquire looks at keys that others take and free at the same time: for half
// a second, or so.
const rounds = 40

// results says what the rows of held keys mean for one acquisition.
func (c *calls) results(acquisition string, wants []driver.Want, rows map[string]holding) []driver.Result {
	results := make([]driver.Result, len(wants))
	for i, w := range wants {
		row, held := rows[w.Key]
		switch {
		case held && row.info.Session == c.session && row.acquisition == acquisition:
			results[i].Token = row.info.Token
		case held:
			results[i].Holder = &row.info
		default: // again and again it was somebody else's for a moment
			results[i].Holder = &driver.Info{Key: w.Key}
		}
	}
	return results
}
