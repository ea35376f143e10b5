package scheduler

import (
	"context"
	"time"
)

// pause waits for d, or for a nudge; false once ctx is done.
func pause(ctx context.Context, d time.Duration, nudged <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-nudged:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// nudge ends a pause, this one or the next.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
