package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
)

// preparing is a connector of SQLite whose connections keep the statements that they have prepared: parsing the text was
// a quarter of the time of a short transaction. SQLite itself prepares a statement again when its tables were changed.
//
// It opens no connection on a file that was deleted or replaced: that would make an empty database, or use the log of the open
// database for another one.
type preparing struct {
	driver.Connector
	file *openFile
}

const (
	// keptStatements is how many a connection keeps, and keptText how long their texts are: those of full lists of keys, too. Of
	// longer ones, up to largeText, it keeps the last one: a statement has some thirty times the size of its text.
	keptStatements = 128
	keptText       = 8 << 10
	largeText      = 32 << 10
)

func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	if err := p.file.holds(); err != nil {
		return nil, err
	}
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(sqliteConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("the SQLite driver's connection %T lacks a method that is needed", conn)
	}
	return &preparingConn{sqliteConn: inner, kept: map[string]sqliteStatement{}}, nil
}

// sqliteConn is what database/sql uses of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteStatement is what it uses of their statements.
type sqliteStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// preparingConn is a connection; database/sql makes one call on it at a time. kept are its statements that are not in use.
type preparingConn struct {
	sqliteConn
	kept  map[string]sqliteStatement
	large string // the text of the one that is longer than keptText; empty: none is kept
}

func (c *preparingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if len(text) > largeText {
		return c.sqliteConn.ExecContext(ctx, text, args)
	}
	s, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(ctx, args)
	if err != nil {
		_ = s.Close() // the error of the statement is returned
		return nil, err
	}
	c.keep(text, s)
	return result, nil
}

func (c *preparingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if len(text) > largeText {
		return c.sqliteConn.QueryContext(ctx, text, args)
	}
	s, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &preparedRows{Rows: rows, conn: c, text: text, statement: s}, nil
}

// take returns a statement that is not in use.
func (c *preparingConn) take(ctx context.Context, text string) (sqliteStatement, error) {
	if s, ok := c.kept[text]; ok {
		c.forget(text)
		return s, nil
	}
	made, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s, ok := made.(sqliteStatement)
	if !ok {
		_ = made.Close()
		return nil, fmt.Errorf("the SQLite driver's statement %T lacks a method that is needed", made)
	}
	return s, nil
}

// keep takes a statement back, and closes another one if there are too many.
func (c *preparingConn) keep(text string, s sqliteStatement) {
	switch {
	case c.kept[text] != nil:
		_ = s.Close()
		return
	case len(text) > keptText:
		c.drop(c.large)
		c.large = text
	case len(c.kept) >= keptStatements:
		for other := range c.kept {
			c.drop(other)
			break
		}
	}
	c.kept[text] = s
}

func (c *preparingConn) drop(text string) {
	if s := c.kept[text]; s != nil {
		c.forget(text)
		_ = s.Close()
	}
}

func (c *preparingConn) forget(text string) {
	delete(c.kept, text)
	if c.large == text {
		c.large = ""
	}
}

// Close closes the statements first: SQLite keeps a connection open as long as it has any.
func (c *preparingConn) Close() error {
	for s := range maps.Values(c.kept) {
		_ = s.Close() // the connection is closed for good
	}
	clear(c.kept)
	return c.sqliteConn.Close()
}

// preparedRows gives its statement back to the connection when it is closed.
type preparedRows struct {
	driver.Rows
	conn      *preparingConn
	text      string
	statement sqliteStatement // nil: given back
}

func (r *preparedRows) Close() error {
	err := r.Rows.Close()
	switch s := r.statement; {
	case s == nil:
	case err != nil:
		_ = s.Close()
	default:
		r.conn.keep(r.text, s)
	}
	r.statement = nil
	return err
}
