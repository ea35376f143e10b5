package store_test

import (
	"context"
	"database/sql/driver"
	"sync"
)

// recorder is a connector that notes the statements that go through its connections.
type recorder struct {
	driver.Connector
	mu    sync.Mutex
	calls []call
}

type call struct {
	text string
	args []any
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
