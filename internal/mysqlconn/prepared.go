package mysqlconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// preparing is a connection that prepares a statement when it is sent for the third time, and keeps it: the
// server parses it no more, and its parameters are not escaped. A rare statement stays a text, which takes one
// round trip in place of two.
type preparing struct {
	mysqlConn
	sent map[string]int // how often, of texts that are not prepared
	kept map[string]mysqlStatement
	full bool // the server prepares no more
}

const (
	preparedFrom = 3
	// mostPrepared is how many a connection keeps: a server has 16,382 by default, for all of its clients.
	mostPrepared = 24
	mostSent     = 256
	longText     = 32 << 10
)

// mysqlConn is what database/sql uses of the driver's connections.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// mysqlStatement is what it uses of their statements.
type mysqlStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func newPreparing(conn driver.Conn) (driver.Conn, error) {
	inner, ok := conn.(mysqlConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("the MySQL driver's connection %T lacks a method that is needed", conn)
	}
	return &preparing{mysqlConn: inner, sent: map[string]int{}, kept: map[string]mysqlStatement{}}, nil
}

func (c *preparing) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.prepared(ctx, text, len(args))
	if err != nil {
		return nil, err
	}
	if s != nil {
		result, err := s.ExecContext(ctx, args)
		if !c.gone(text, err) {
			return result, err
		}
	}
	return c.mysqlConn.ExecContext(ctx, text, args)
}

func (c *preparing) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.prepared(ctx, text, len(args))
	if err != nil {
		return nil, err
	}
	if s != nil {
		rows, err := s.QueryContext(ctx, args)
		if !c.gone(text, err) {
			return rows, err
		}
	}
	return c.mysqlConn.QueryContext(ctx, text, args)
}

// prepared is the statement of a text; nil: it is sent as a text.
func (c *preparing) prepared(ctx context.Context, text string, args int) (mysqlStatement, error) {
	if s, is := c.kept[text]; is {
		return s, nil
	}
	if c.full || args == 0 || len(text) > longText || !prepares(text) {
		return nil, nil
	}
	if len(c.sent) >= mostSent {
		clear(c.sent)
	}
	if c.sent[text]++; c.sent[text] < preparedFrom {
		return nil, nil
	}
	delete(c.sent, text)
	made, err := c.PrepareContext(ctx, text)
	switch number(err) {
	case tooManyPrepared, notInProtocol:
		c.full = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, ok := made.(mysqlStatement)
	if !ok {
		_ = made.Close()
		return nil, fmt.Errorf("the MySQL driver's statement %T lacks a method that is needed", made)
	}
	if len(c.kept) >= mostPrepared {
		for other := range c.kept {
			c.drop(other)
			break
		}
	}
	c.kept[text] = s
	return s, nil
}

// prepares: of other statements servers prepare some, and none is worth it.
func prepares(text string) bool {
	verb, _, _ := strings.Cut(text, " ")
	return slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, verb)
}

// gone reports whether err says that the server has a statement no more, so that it did nothing.
func (c *preparing) gone(text string, err error) bool {
	n := number(err)
	gone := n == unknownStatement || n == needsAnother
	if gone {
		c.drop(text)
	}
	return gone
}

func (c *preparing) drop(text string) {
	_ = c.kept[text].Close() // which has no answer
	delete(c.kept, text)
}

const (
	unknownStatement = 1243 // a proxy has another connection to the server now
	notInProtocol    = 1295
	tooManyPrepared  = 1461
	needsAnother     = 1615 // a table was changed repeatedly meanwhile
)

// number is that of an error of the server; 0: it is something else.
func number(err error) uint16 {
	if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return answer.Number
	}
	return 0
}
