package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// maxStarting bounds the retries of a starting replica.
const maxStarting = time.Minute

// starting reports whether the replica refused because its definitions are not loaded yet. Nothing was done, so even a
// write without an idempotency key can be repeated. After any other 503 the outcome is unknown.
func (e *Error) starting() bool {
	return e.Status == http.StatusServiceUnavailable && e.Code == "starting"
}

// maxBusy bounds the retries of a busy replica.
const maxBusy = 20 * time.Second

// busy reports whether the replica refused because it has too many requests. Nothing was done.
func (e *Error) busy() bool {
	return e.Status == http.StatusTooManyRequests && e.Code == "busy"
}

// patience bounds the retries after e; 0: none.
func (e *Error) patience() time.Duration {
	switch {
	case e.starting():
		return maxStarting
	case e.busy():
		return maxBusy
	}
	return 0
}

// retryAfter is the Retry-After of a response, 1 … 30 s.
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
