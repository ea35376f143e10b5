package locks

import (
	"context"
	"errors"
)

// Do runs fn while it holds r.Key.
//
//  1. wait for the key, as [Locker.Acquire] does
//  2. run fn, with a context that ends when ctx is done or the lock is lost
//  3. release the key, also when ctx is done or fn panics
//
// If ctx ends the wait, the error matches ctx.Err() and the last obstacle, most often ErrBusy.
//
// When the lock is lost, the context of fn ends with a cause that matches ErrLost or ErrForced. If that
// happened before fn returned, the error of Do matches ErrLost and fn's own error. At the end of MaxHold, the cause and the
// error match ErrReleased instead.
func Do(ctx context.Context, l *Locker, r Request, fn func(ctx context.Context, token Token) error) (err error) {
	leases, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	lease := leases[0]
	defer func() {
		// The key is released also when ctx is done, or when fn panics. If that fails it is released in
		// the background: only a lease that was lost earlier concerns the work of fn.
		releasing, cancel := l.calling(context.WithoutCancel(ctx))
		defer cancel()
		over := lease.Check()
		gone := lease.Release(releasing)
		switch {
		case over != nil && errors.Is(err, over): // fn has returned the cause of its context
		case errors.Is(over, ErrReleased):
			err = errors.Join(err, over)
		case errors.Is(gone, ErrLost):
			err = errors.Join(err, gone)
		}
	}()
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	joined := make(chan struct{})
	stop := context.AfterFunc(lease.Context(), func() { //nolint:contextcheck // it passes on why the lease ended
		defer close(joined)
		cancel(context.Cause(lease.Context()))
	})
	defer func() {
		if !stop() {
			<-joined
		}
	}()
	return fn(working, lease.Token())
}
