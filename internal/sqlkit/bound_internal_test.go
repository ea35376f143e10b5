package sqlkit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call has the Timeout, also where its context ends much later, as that of a handler does.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{Timeout: 5 * time.Second}
		for given, want := range map[time.Duration]time.Duration{
			0: 5 * time.Second, time.Second: time.Second, 10 * time.Second: 10 * time.Second, ownBound: ownBound,
			ownBound + 1: 5 * time.Second, 24 * time.Hour: 5 * time.Second,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if given > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), given)
			}
			ctx, end := db.Bound(ctx)
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != want {
				t.Errorf("a context of %v: %v, %t", given, time.Until(at), ok)
			}
			end()
			cancel()
		}
	})
}
