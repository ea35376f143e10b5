package scheduler

import (
	"context"
	"sync"
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

// after calls fn once d is over. stop prevents that, or waits until fn has returned.
func after(d time.Duration, fn func()) (stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() { defer close(done); fn() })
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-done
		}
	})
}

// nudge ends a pause, this one or the next.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
