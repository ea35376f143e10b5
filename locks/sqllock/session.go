package sqllock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session runs the statements of one session, in either mode. A deadlock, a lock timeout or a busy file is retried until
// the context ends: the statement had no effect.
type session struct {
	*sqlkit.DB
	dialect   dialect
	namespace string
	id        string
	owner     string
	ttl       time.Duration
	table     string                                                         // of the held keys
	view      func(ctx context.Context, look func(t *sqlkit.Tx) error) error // reads that table
	turn      chan struct{}                                                  // held while keys are taken
}

func (c *session) ID() string         { return c.id }
func (c *session) TTL() time.Duration { return c.ttl }

func (c *session) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = c.dialect.write(ctx, c.DB, func(t *sqlkit.Tx) error {
		rows, err = t.Exec(statement, args...)
		return err
	})
	return rows, err
}

// execRows is exec of a statement for many rows.
func (c *session) execRows(ctx context.Context, statement string, of sqlkit.Many, args ...any) error {
	return c.dialect.write(ctx, c.DB, func(t *sqlkit.Tx) error {
		_, err := t.Exec(statement, append([]any{of}, args...)...)
		return err
	})
}

// mint takes n tokens and returns the first of them. A caller that does not hold the key yet mints in the
// transaction that takes it: else a smaller token could be granted after a larger one.
func (c *session) mint(t *sqlkit.Tx, n int) (driver.Token, error) {
	last, err := c.dialect.mint(t, c.namespace, n)
	if err == nil && last == 0 {
		err = fmt.Errorf("the token counter of namespace %s is missing from the table", c.namespace)
	}
	return driver.Token(last) - driver.Token(n) + 1, err
}

// queue waits for the session's turn to take keys: its callers would only race with each other, and
// most find after a wait that the key has gone. It reports whether it waited.
func (c *session) queue(ctx context.Context) (waited bool, err error) {
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
func (c *session) names(ctx context.Context, statement string, args ...any) (found map[string]bool, err error) {
	err = c.Autocommit(ctx, func(t *sqlkit.Tx) error {
		found, err = names(t, statement, args...)
		return err
	})
	return found, err
}

func keysOf(wants []driver.Want) sqlkit.Many {
	return sqlkit.Rows(wants, func(w driver.Want) []any { return []any{w.Key} })
}

// inTurn takes the keys of wants that have no row, in the session's turn, and returns all rows, as look reads them.
func (c *session) inTurn(ctx context.Context, wants []driver.Want, rows map[string]holding, take func(free []driver.Want) error,
	look func(context.Context, []driver.Want) (map[string]holding, error),
) (map[string]holding, error) {
	waited, err := c.queue(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { <-c.turn }()
	if waited {
		if rows, err = look(ctx, wants); err != nil || len(rows) == len(wants) {
			return rows, err
		}
	}
	if err := take(without(wants, rows)); err != nil {
		return nil, err
	}
	return look(ctx, wants)
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
func (c *session) results(acquisition string, wants []driver.Want, rows map[string]holding) []driver.Result {
	results := make([]driver.Result, len(wants))
	for i, w := range wants {
		row, held := rows[w.Key]
		switch {
		case held && row.info.Session == c.id && row.acquisition == acquisition:
			results[i].Token = row.info.Token
		case held:
			results[i].Holder = &row.info
		default: // other sessions held it for a moment each time
			results[i].Holder = &driver.Info{Key: w.Key}
		}
	}
	return results
}
