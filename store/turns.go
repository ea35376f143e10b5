package store

import (
	"context"
	"database/sql"
)

// turns bounds how many views run at once; nil bounds nothing.
type turns chan struct{}

// Views may take one in viewShare of the connections of a handle. viewConns is how many they have where the handle is not
// bounded, or where they have a pool of their own.
const (
	viewShare = 4
	viewConns = 4
)

// newTurns are the turns of views on a handle that other work uses, too.
func newTurns(pool *sql.DB) turns {
	n := viewConns
	if most := pool.Stats().MaxOpenConnections; most > 0 {
		n = max(1, most/viewShare)
	}
	return make(turns, n)
}

// enter waits for a turn; leave ends it.
func (t turns) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
