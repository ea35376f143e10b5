package client

import (
	"net/http"
	"strconv"
	"time"
)

const (
	maxStarting = time.Minute      // of retries while the replica is starting
	maxBusy     = 20 * time.Second // and while it is busy
)

// patience bounds the retries after e; 0: none. When a replica has not loaded its definitions, or has too many requests,
// nothing was done, so even a write without an idempotency key can be repeated. After any other 503 the outcome is
// unknown.
func (e *Error) patience() time.Duration {
	switch {
	case e.Status == http.StatusServiceUnavailable && e.Code == "starting":
		return maxStarting
	case e.Status == http.StatusTooManyRequests && e.Code == "busy":
		return maxBusy
	}
	return 0
}

// retryAfter is the Retry-After of a response, 1 … 30 s.
func retryAfter(res *http.Response) time.Duration {
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 1), 30)) * time.Second
}
