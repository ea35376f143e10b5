package locks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
)

// readyKey is what Ready tries to acquire, with a random end: no other process waits for it.
const readyKey = syskeys.Prefix + "ready/"

// Ready returns nil once the service grants:
//
//  1. acquire a key that nobody else asks for, and release it
//  2. while the service is recovering, as a Redis is that was started again, wait a moment and try again
//
// If ctx ends before, the error matches ErrRecovering and ctx.Err(). If the service cannot be reached Ready does not wait: the
// error matches ErrUnavailable and names the address and the cause.
func (l *Locker) Ready(ctx context.Context) error {
	var recovering error
	for {
		err := l.probe(ctx)
		switch {
		case errors.Is(err, ErrRecovering):
			recovering = err
		case err == nil || ctx.Err() == nil || recovering == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", recovering, ctx.Err())
		case <-time.After(maxPause):
		}
	}
}

// probe acquires and releases a key.
func (l *Locker) probe(ctx context.Context) error {
	if err := l.Connect(ctx); err != nil {
		return err
	}
	attempts, err := l.TryAcquire(syskeys.Allow(ctx), Request{Key: readyKey + rand.Text()})
	if err == nil {
		err = attempts[0].Err
	}
	if err != nil {
		return fmt.Errorf("locks: ready: %w", err)
	}
	return attempts[0].Lease.Release(ctx)
}
