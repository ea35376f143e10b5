package bench

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// ours is the portable layer on a driver; several keys are one call.
func ours(tb testing.TB, name, raw string, drv driver.Driver) contestant {
	tb.Helper()
	l := newLocker(tb, drv, "bench")
	return contestant{name: name, raw: raw, take: func(ctx context.Context, keys []string) (func() error, error) {
		requests := make([]locks.Request, len(keys))
		for i, key := range keys {
			requests[i].Key = "user/" + key
		}
		attempts, err := l.TryAcquire(ctx, requests...)
		if err != nil {
			return nil, err
		}
		leases := make([]*locks.Lease, len(attempts))
		for i, a := range attempts {
			if a.Err != nil {
				return nil, a.Err
			}
			leases[i] = a.Lease
		}
		return func() error { return l.Release(ctx, leases...) }, nil
	}}
}

// newLocker returns a Locker whose service grants: a Redis that has just started waits for one ttl.
func newLocker(tb testing.TB, drv driver.Driver, namespace string) *locks.Locker {
	tb.Helper()
	return lockerWith(tb, drv, namespace, nil)
}

func lockerWith(tb testing.TB, drv driver.Driver, namespace string, observer locks.Observer) *locks.Locker {
	tb.Helper()
	l, err := locks.New(drv, locks.Options{TTL: sized().lockTTL, Namespace: namespace, Observer: observer})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	await.Until(tb, "the lock service grants", func() bool {
		attempts, err := l.TryAcquire(tb.Context(), locks.Request{Key: "user/first"})
		if err == nil {
			err = attempts[0].Err
		}
		switch {
		case errors.Is(err, locks.ErrRecovering), errors.Is(err, locks.ErrBusy): // busy: another replica tries it, too
			return false
		case err == nil:
			err = attempts[0].Lease.Release(tb.Context())
		}
		if err != nil {
			tb.Fatal(err)
		}
		return true
	})
	return l
}

func inMemory(tb testing.TB) []contestant {
	return []contestant{ours(tb, "memlock: what the portable layer costs by itself", "", memlock.New())}
}
