package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// maxStarting is how long a replica that is starting is asked again.
const maxStarting = time.Minute

// starting reports whether the replica refused because its definitions are not loaded yet. Then it has
// done nothing, so that even a write without an idempotency key can be asked again. No other 503 says
// that: what a store or a proxy that does not answer has done is not known.
func (e *Error) starting() bool {
	return e.Status == http.StatusServiceUnavailable && e.Code == "starting"
}

// maxBusy is how long a replica is asked again that has as much to do as it takes.
const maxBusy = 20 * time.Second

// busy reports whether the replica refused because as much as it takes at once is under way. It has done nothing.
func (e *Error) busy() bool {
	return e.Status == http.StatusTooManyRequests && e.Code == "busy"
}

// patience is how long what e refuses is asked again; 0: not at all.
func (e *Error) patience() time.Duration {
	switch {
	case e.starting():
		return maxStarting
	case e.busy():
		return maxBusy
	}
	return 0
}

// retryAfter is how long an answer asks to wait, 1 … 30 s.
func retryAfter(res *http.Response) time.Duration {
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 1), 30)) * time.Second
}

// pause waits, and is false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
