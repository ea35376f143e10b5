package sqllock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// calls runs the statements of one session. A deadlock, a lock timeout or a busy file is retried until the
// context ends: the statement had no effect.
type calls struct {
	*sqlkit.DB
	dialect   dialect
	namespace string
	session   string
	owner     string
	turn      chan struct{} // held while keys are taken
}

func (c *calls) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = c.dialect.write(ctx, c.DB, func(t *sqlkit.Tx) error {
		rows, err = t.Exec(statement, args...)
		return err
	})
	return rows, err
}

// execRows is exec of a statement for many rows.
func (c *calls) execRows(ctx context.Context, statement string, of [][]any, args ...any) error {
	return c.dialect.write(ctx, c.DB, func(t *sqlkit.Tx) error {
		_, err := t.ExecRows(statement, of, args...)
		return err
	})
}

// mint takes n tokens and returns the first of them. A caller that does not hold the key yet mints in the
// transaction that takes it: else a smaller token could be granted after a larger one.
func (c *calls) mint(t *sqlkit.Tx, n int) (driver.Token, error) {
	last, err := c.dialect.mint(t, c.namespace, n)
	if err == nil && last == 0 {
		err = fmt.Errorf("the mark of namespace %s is gone", c.namespace)
	}
	return driver.Token(last) - driver.Token(n) + 1, err
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

// live: a row that is not live holds nothing.
func (h holding) live() bool { return h.left > 0 }

// left is, for a row of a table, for how many µs it will hold its key without a renewal; in {rows} that is
// until its transaction ends.
var left = map[string]string{
	"{leases}": `COALESCE((SELECT s.expires_at - {now} FROM {sessions} s WHERE s.id = session_id AND s.dead = 0), 0)`,
	"{rows}":   `token`,
}

// among is the condition for some keys of a namespace, by primary key.
const among = `namespace = ? AND {in name name}`

// read returns the rows of {leases} or {rows} that belong to keys.
func read(t *sqlkit.Tx, table, namespace string, keys [][]any) (map[string]holding, error) {
	found := map[string]holding{}
	err := t.QueryRows(selectHoldings(table)+among, keys, []any{namespace}, scanHolding(found))
	return found, err
}

// list returns those that a condition selects.
func list(t *sqlkit.Tx, table, where string, args []any) (map[string]holding, error) {
	found := map[string]holding{}
	err := t.Query(selectHoldings(table)+where, args, scanHolding(found))
	return found, err
}

func selectHoldings(table string) string {
	return `SELECT name, token, session_id, acquisition, owner, meta, since, ` + left[table] + ` FROM ` + table + ` WHERE `
}

func scanHolding(found map[string]holding) func(scan func(dest ...any) error) error {
	return func(scan func(...any) error) error {
		var h holding
		var since, left int64
		err := scan(&h.info.Key, &h.info.Token, &h.info.Session, &h.acquisition, &h.info.Owner, &h.info.Meta, &since, &left)
		h.info.Since, h.left = time.UnixMicro(since).UTC(), time.Duration(left)*time.Microsecond
		found[h.info.Key] = h
		return err
	}
}

// names returns one column of text.
func names(t *sqlkit.Tx, statement string, args ...any) (map[string]bool, error) {
	found := map[string]bool{}
	err := t.Query(statement, args, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		found[name] = true
		return err
	})
	return found, err
}

// names is the function on a connection of its own.
func (c *calls) names(ctx context.Context, statement string, args ...any) (found map[string]bool, err error) {
	err = c.Autocommit(ctx, func(t *sqlkit.Tx) error {
		found, err = names(t, statement, args...)
		return err
	})
	return found, err
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

func keysOf(wants []driver.Want) [][]any {
	return sqlkit.Rows(wants, func(w driver.Want) []any { return []any{w.Key} })
}

func keysHeld(held []driver.Held) [][]any {
	return sqlkit.Rows(held, func(h driver.Held) []any { return []any{h.Key} })
}

// without is those of wants that have no row.
func without(wants []driver.Want, rows map[string]holding) []driver.Want {
	return slices.DeleteFunc(slices.Clone(wants), func(w driver.Want) bool { _, there := rows[w.Key]; return there })
}

const (
	// rounds is how often TryAcquire looks at keys that others take and free at the same time: for half
	// a second, or so.
	rounds = 40
	// nap is the longest pause between two of them.
	nap = 30 * time.Millisecond
)

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
		default: // other sessions held it for a moment each time
			results[i].Holder = &driver.Info{Key: w.Key}
		}
	}
	return results
}
