package store

import (
	"context"
	"time"
)

// Now is the database's time.
func (s admin) Now(ctx context.Context) (time.Time, error) { return get(ctx, s.read, "now", (*tx).Now) }

// micros is how times are kept: microseconds since 1970; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of micros, in UTC.
func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
