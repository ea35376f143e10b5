package store_test

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
)

// recorder is a connector that notes the statements that go through its connections.
type recorder struct {
	driver.Connector
	inParts bool
	mu      sync.Mutex
	calls   []call
	part    string // the statement before
}

type call struct {
	text string
	args []any
}

// goesOn reports whether a statement writes more rows of the INSERT before it: SQLite, which answers in the same process, gets one in parts, so
// that each is prepared once. Parts are shorter and shorter, but for the longest: an INSERT for each row is none.
func (r *recorder) goesOn(text string) bool {
	const longest = 64
	into, values, inserts := strings.Cut(text, " VALUES (")
	before, valuesBefore, _ := strings.Cut(r.part, " VALUES (")
	n, nBefore := strings.Count(values, "),("), strings.Count(valuesBefore, "),(")
	return r.inParts && inserts && strings.HasPrefix(text, "INSERT ") && into == before && (n < nBefore || n+1 == longest)
}

// take returns the calls since the last take.
func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func (r *recorder) note(text string, args []driver.NamedValue) {
	c := call{text: text}
	for _, a := range args {
		c.args = append(c.args, a.Value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	goesOn := len(r.calls) > 0 && r.goesOn(text)
	r.part = text
	if goesOn {
		last := &r.calls[len(r.calls)-1]
		last.args = append(last.args, c.args...)
		return
	}
	r.calls = append(r.calls, c)
}

func (r *recorder) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	return recorded{conn, r}, err
}

// recorded forwards the calls of database/sql to both drivers.
type recorded struct {
	driver.Conn
	r *recorder
}

func (c recorded) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.r.note(text, args)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
}

func (c recorded) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.r.note(text, args)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
}
