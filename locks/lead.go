package locks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Lead runs fn whenever l holds the key, until ctx ends: of all processes that lead by one key, one runs its fn at a time.
//
//  1. wait for the key, as [Locker.Acquire] does, and while the service is unavailable
//  2. run fn, with a context that ends when ctx is done or the lock is lost
//  3. release the key, and begin again: where others wait, it is their turn
//
// fn is meant to work until its context ends; one that returns nil early gives the next process its turn. Lead returns nil
// after ctx has ended and fn has returned, and fn's error if that is another one than the end of its context. If fn never ran since the
// service could not be reached, the error says why, and matches ErrUnavailable or ErrRecovering, and ctx.Err(). It returns at once if the
// key is invalid or l is closed.
//
// The leader may change while fn still runs in a process that was stopped: hand the token to what fn writes to.
func Lead(ctx context.Context, l *Locker, key string, fn func(ctx context.Context, token Token) error) error {
	ever := false
	var why error // the service could not be reached, as far as is known
	for {
		var led bool
		var failed error
		err := Do(ctx, l, Request{Key: key}, func(ctx context.Context, token Token) error {
			led, ever = true, true
			failed = fn(ctx, token)
			return failed
		})
		away := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRecovering)
		switch { // a try that ctx has ended at once says nothing of the service
		case away:
			why = err
		case errors.Is(err, ErrBusy):
			why = nil
		}
		ended := ctx.Err() // once: it may end between two looks
		switch lost := errors.Is(err, ErrLost) || errors.Is(err, ErrReleased); {
		case failed != nil && !((lost || ended != nil) && isEnd(failed)):
			return failed
		case ended != nil && !ever && why != nil:
			if !errors.Is(why, ended) {
				why = fmt.Errorf("%w: %w", why, ended)
			}
			return fmt.Errorf("locks: lead %s: it never did: %w", key, why)
		case ended != nil:
			return nil
		case led:
			continue
		case !away || errors.Is(err, errClosed):
			return err
		}
		select { // Acquire waits only for a service that it has reached once
		case <-ctx.Done():
		case <-time.After(maxBackoff):
		}
	}
}

// isEnd reports whether a function returned what ended its context.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) ||
		errors.Is(err, ErrForced) || errors.Is(err, ErrReleased)
}
