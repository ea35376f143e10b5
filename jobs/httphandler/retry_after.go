package httphandler

import (
	"net/http"
	"strconv"
	"time"
)

// longestWait is the longest accepted Retry-After.
const longestWait = 24 * time.Hour

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait := time.Duration(seconds) * time.Second
		return wait, wait <= longestWait
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	wait := max(at.Sub(now), 0)
	return wait, wait <= longestWait
}
