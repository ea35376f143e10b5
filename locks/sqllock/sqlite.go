package sqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
)

// bumpSQLite runs the UPDATE of mint and returns the new highest token in the same statement.
func (c *calls) bumpSQLite(ctx context.Context, on execer, update string, n int) (last int64, err error) {
	rows, err := on.QueryContext(ctx, c.words.replace.Replace(update+` RETURNING token`), n, c.namespace)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&last); err != nil {
			return 0, err
		}
	}
	return last, rows.Err()
}

// txSQLite runs do in a transaction. Its COMMIT does not obey ctx: a file answers, and an interrupted
// COMMIT would be one more outcome.
func (c *calls) txSQLite(ctx context.Context, do func(on execer) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// execSQLite runs a single write. SQLite takes one writer at a time, and lets those that wait ask
// again more and more seldom, so a renewal could lose for seconds against newcomers. Here it asks
// every few milliseconds until ctx ends.
func (c *calls) execSQLite(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var timeout int
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&timeout); err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil {
		return nil, err
	}
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout = %d`, timeout)); err != nil {
			_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // not back to the pool like this
		}
	}()
	for {
		res, err := conn.ExecContext(ctx, statement, args...)
		if err == nil || !undone(err) || !pause(ctx, 1) {
			return res, err
		}
	}
}
