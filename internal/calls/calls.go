// Package calls lets a caller stop waiting for a call that has no context, and join it later; and it makes several
// calls at once.
package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed: the group was joined, no call begins any more.
var ErrClosed = errors.New("closed")

// Group is the calls under way. The zero Group is ready for use.
type Group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// Await returns the result of f, or the error of ctx, whichever is first. In the second case f continues until
// it ends; Join waits for it.
func Await[T any](ctx context.Context, g *Group, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, Ended(ctx)
	}
	done := make(chan outcome, 1)
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return none, ErrClosed
	}
	g.wg.Go(func() {
		value, err := f()
		done <- outcome{value, err}
	})
	g.mu.Unlock()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, Ended(ctx)
	}
}

// Go starts f, and reports whether it has: false once the group was joined.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f)
	return true
}

// Do is Await of a call without a result.
func Do(ctx context.Context, g *Group, f func() error) error {
	_, err := Await(ctx, g, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Join lets no call begin and waits for the running ones.
func (g *Group) Join(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return Ended(ctx)
	}
}

// Ended is why ctx is done: its error, and its cause if that differs.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
