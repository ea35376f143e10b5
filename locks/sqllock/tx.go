package sqllock

import (
	"context"
	"database/sql"
	"strings"
)

// tx runs do in a transaction, again as a whole if the server undid it. SQLite knows one isolation
// level and ignores the name. When ctx ends before COMMIT is answered nobody knows whether it was done.
func (c *calls) tx(ctx context.Context, level sql.IsolationLevel, do func(on execer) error) error {
	_, err := again(ctx, func() (struct{}, error) {
		if c.dialect == SQLite {
			return struct{}{}, c.txSQLite(ctx, do)
		}
		return struct{}{}, c.txMySQL(ctx, level, do)
	})
	return err
}

// txMySQL begins and ends the transaction by statements, which obey ctx: the Commit and Rollback of a
// sql.Tx wait for an answer for as long as the connection seems to be open. One whose state is unknown
// is dropped.
func (c *calls) txMySQL(ctx context.Context, level sql.IsolationLevel, do func(on execer) error) error {
	conn, err := c.connect(ctx, "SET TRANSACTION ISOLATION LEVEL "+strings.ToUpper(level.String()), "START TRANSACTION")
	if err != nil {
		return err
	}
	defer conn.Close()
	if err = do(conn); err != nil {
		if run(ctx, conn, "ROLLBACK") != nil {
			conn.drop()
		}
		return err
	}
	if err = run(ctx, conn, "COMMIT"); err != nil {
		conn.drop()
	}
	return err
}

// run runs statements until one fails.
func run(ctx context.Context, on execer, statements ...string) error {
	for _, statement := range statements {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
