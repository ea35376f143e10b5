package lockstest

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// locker makes a Locker that is closed when the test ends.
func (s *suite) locker(t *testing.T, d driver.Driver, ttl time.Duration, namespace, owner string) *locks.Locker {
	t.Helper()
	l, err := locks.New(d, locks.Options{TTL: ttl, Namespace: namespace, Owner: owner, CallTimeout: callTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// lease takes a key that must be free; it waits while the server is recovering or away.
func (s *suite) lease(t *testing.T, l *locks.Locker, key string) *locks.Lease {
	t.Helper()
	var got *locks.Lease
	var why error
	eventually(t, 2*s.patience()+late, "a lease of "+key, func() bool {
		attempts, err := l.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: key})
		if err == nil {
			got, err = attempts[0].Lease, attempts[0].Err
		}
		if err != nil && why == nil {
			why = err
			t.Logf("not at once: %v", err)
		}
		return got != nil
	})
	return got
}

// ended waits for the end of a lease and returns its cause.
func ended(t *testing.T, l *locks.Lease, within time.Duration) error {
	t.Helper()
	select {
	case <-l.Context().Done():
		return context.Cause(l.Context())
	case <-time.After(within):
		t.Fatalf("the lease of %s did not end within %v", l.Key(), within)
		return nil
	}
}
