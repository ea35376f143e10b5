// Package accepted is how a handler that has handed its work to another process waits for what that says of the attempt's end.
package accepted

import (
	"context"
	"errors"
)

// ErrEnded is the error of an attempt that another process has ended otherwise than as succeeded, and recorded so.
var ErrEnded = errors.New("the attempt was ended by the process that had accepted it")

// Wait waits until another process has recorded the end of the attempt, or ctx is done. nil: it has succeeded.
type Wait func(ctx context.Context) error

type key struct{}

// With is ctx for a handler that may wait so.
func With(ctx context.Context, wait Wait) context.Context { return context.WithValue(ctx, key{}, wait) }

// From is what With has put into ctx; false: the attempt ends with the handler.
func From(ctx context.Context) (Wait, bool) {
	wait, ok := ctx.Value(key{}).(Wait)
	return wait, ok
}
