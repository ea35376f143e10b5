// Package wake has what the loops of a replica wait by: a time, or a signal that there is something to do now.
package wake

import (
	"context"
	"sync"
	"time"
)

// Wait waits for d, or for a signal; false once ctx is done.
func Wait(ctx context.Context, d time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-signal:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// Loops runs loops side by side until each has returned.
func Loops(ctx context.Context, loops ...func(context.Context)) {
	var all sync.WaitGroup
	for _, loop := range loops {
		all.Go(func() { loop(ctx) })
	}
	all.Wait()
}

// After calls fn once d is over. stop prevents that, or waits until fn has returned.
func After(d time.Duration, fn func()) (stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() { defer close(done); fn() })
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-done
		}
	})
}

// Signal makes the channel that a loop waits on: one signal is kept until the loop waits.
func Signal() chan struct{} { return make(chan struct{}, 1) }

// Send ends a wait on the signal: the present one or the next.
func Send(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
