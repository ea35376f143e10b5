package sqlkit

import (
	"context"
	"database/sql"
	"time"
)

// Tx is one transaction, or one connection without a transaction, for the time of one call.
type Tx struct {
	Ctx   context.Context //nolint:containedctx // a Tx lives as long as the call that it is made for
	DB    *DB
	Conn  Conn
	Again bool // a COMMIT of the same work has had no answer; see Settle
}

// Conn runs statements: [*sql.Conn], [*sql.Tx], and gorm's ConnPool.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Exec runs a statement and returns the rows affected; for no rows of [Many] it does nothing. On MySQL a caller's handle may count
// changed rows, not found ones: never write a value that may be there already and read the count as proof.
func (t *Tx) Exec(text string, args ...any) (rows int64, err error) {
	text, args, err = t.statement(text, args)
	if err != nil || text == "" {
		return 0, err
	}
	return t.exec(text, args)
}

// exec is Exec of a text as the database gets it.
func (t *Tx) exec(text string, args []any) (rows int64, err error) {
	result, err := t.Conn.ExecContext(t.Ctx, text, t.DB.Dialect.Args(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Result is Exec for what else the driver tells.
func (t *Tx) Result(text string, args ...any) (sql.Result, error) {
	return t.Conn.ExecContext(t.Ctx, t.DB.Text(text), t.DB.Dialect.Args(args)...)
}

// Query calls each for every row, in order. each must not use the transaction.
func (t *Tx) Query(text string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := t.Rows(text, args...)
	if err != nil || rows == nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Rows is Query for what reads the rows itself, and closes them; nil for no rows of [Many].
func (t *Tx) Rows(text string, args ...any) (*sql.Rows, error) {
	text, args, err := t.statement(text, args)
	if err != nil || text == "" {
		return nil, err
	}
	return t.Conn.QueryContext(t.Ctx, text, t.DB.Dialect.Args(args)...)
}

// statement is a text and its parameters as the database gets them; "" for no rows of [Many].
func (t *Tx) statement(text string, args []any) (string, []any, error) {
	if len(args) > 0 {
		if rows, is := args[0].(Many); is {
			if len(rows) == 0 {
				return "", nil, nil
			}
			return t.DB.forRows(text, rows, args[1:])
		}
	}
	return t.DB.Text(text), args, nil
}

// One reads the first row into dest; found is false if there is none.
func (t *Tx) One(text string, args []any, dest ...any) (found bool, err error) {
	err = t.Query(text, args, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(dest...)
	})
	return found, err
}

// Now is the database's time.
func (t *Tx) Now() (time.Time, error) { return t.DB.Dialect.Now(t) }
