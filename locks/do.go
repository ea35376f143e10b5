package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Do runs fn while it holds r.Key.
//
//  1. try for the key until ctx is done, with a pause that grows, also through an outage of the service, unless l has
//     never reached it
//  2. run fn, with a context that ends when ctx is done or the lock is lost
//  3. release the key, also when ctx is done or fn panics
//
// If ctx ends the wait, the error matches ctx.Err() and the last obstacle, most often ErrBusy.
//
// When the lock is lost, the context of fn ends with a cause that matches ErrLost or ErrForced. If that
// happened before fn returned, the error of Do matches ErrLost and fn's own error.
func Do(ctx context.Context, l *Locker, r Request, fn func(ctx context.Context, token Token) error) (err error) {
	lease, err := l.wait(ctx, r)
	if err != nil {
		return err
	}
	defer func() {
		// The key is released also when ctx is done, or when fn panics. If that fails it is released in
		// the background: only a lease that was lost earlier concerns the work of fn.
		releasing, cancel := l.calling(context.WithoutCancel(ctx))
		defer cancel()
		if gone := lease.Release(releasing); errors.Is(gone, ErrLost) {
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

// wait tries for the key until ctx is done.
func (l *Locker) wait(ctx context.Context, r Request) (*Lease, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("locks: acquire: %w", err)
	}
	var last error
	for pause := minPause; ; pause = min(pause*3/2, maxPause) {
		attempts, err := l.TryAcquire(ctx, r)
		if err == nil && attempts[0].Lease != nil {
			return attempts[0].Lease, nil
		}
		if err == nil {
			err = attempts[0].Err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if errors.Is(err, ErrUnavailable) && !l.waitable() {
			return nil, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return nil, errors.Join(last, ctx.Err())
		}
	}
}

const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// waitable reports whether waiting for an unavailable service makes sense.
func (l *Locker) waitable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && l.health.reached
}
