package httphandler

import (
	"net/http"
	"testing"
	"time"
)

// Seconds or a date, of a day at most; a past date is now.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for text, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, "86400": 24 * time.Hour, "86401": -1, "4294967295": -1, "99999999999": -1, "-1": -1, "+1": -1, "1.5": -1, "soon": -1, "": -1,
		date(0): 0, date(-time.Hour): 0, date(90 * time.Second): 90 * time.Second, date(24 * time.Hour): 24 * time.Hour, date(24*time.Hour + time.Second): -1,
	} {
		wait, ok := retryAfter(text, now)
		if ok != (want >= 0) || ok && wait != want {
			t.Errorf("%q: %v, %v, want %v", text, wait, ok, want)
		}
	}
}
