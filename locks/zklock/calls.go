package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errClosed = errors.New("closed")

// calls are the calls under way. The library knows no contexts: a call whose context ended is left
// behind, and ends at the latest with its connection.
type calls struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// await returns what f returns, or why ctx ended, whichever is first.
func await[T any](ctx context.Context, c *calls, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, ended(ctx)
	}
	done := make(chan outcome, 1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return none, errClosed
	}
	c.wg.Go(func() {
		value, err := f()
		done <- outcome{value, err}
	})
	c.mu.Unlock()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ended(ctx)
	}
}

// join lets no call begin and waits for those under way.
func (c *calls) join(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended says why ctx is over.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
