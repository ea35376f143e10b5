package locks_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// Calls of callers that fail, however many and when, postpone no renewal: a lease lasts as long as renewals are answered.
func TestCallsThatFailPostponeNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		l := start(t, f, locks.Options{CallTimeout: time.Minute})
		lease := take(t, l, "user/a")
		f.on(only("acquire", staggered(3*time.Second, driver.ErrUnreachable)))
		tryMany(t, l, 250) // for ten seconds
		if err := lease.Check(); err != nil {
			t.Errorf("%v, after %d renewals", err, f.count("renew"))
		}
	})
}

// Calls of callers that fail or are answered, while renewals fail, leave the backoff of these as it is.
func TestCallsLeaveTheBackoffOfRenewals(t *testing.T) {
	for name, err := range map[string]error{"they fail": driver.ErrUnreachable, "they are answered": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(memlock.New())
				l := start(t, f, locks.Options{TTL: 3 * time.Second, CallTimeout: time.Minute})
				take(t, l, "user/a")
				began, acquires := time.Now(), staggered(time.Second, err)
				var at []time.Duration
				f.on(func(ctx context.Context, call string, do func() error) error {
					switch call {
					case "renew":
						at = append(at, time.Since(began))
						return errNet
					case "acquire":
						return acquires(ctx, call, do)
					}
					return do()
				})
				tryMany(t, l, 20)
				const ms = time.Millisecond
				if want := []time.Duration{1000 * ms, 1050 * ms, 1150 * ms, 1350 * ms, 1650 * ms}; !slices.Equal(at, want) {
					t.Errorf("renewed at %v, want %v", at, want)
				}
			})
		})
	}
}

// staggered lets calls end one after the other, each 40 ms from a moment on, with err or their answer.
func staggered(from time.Duration, err error) func(context.Context, string, func() error) error {
	var calls atomic.Int32
	return func(_ context.Context, _ string, do func() error) error {
		time.Sleep(from + time.Duration(calls.Add(1))*40*time.Millisecond)
		if err != nil {
			return err
		}
		return do()
	}
}

// tryMany tries so many keys at once, in a call each, and waits until all have an outcome.
func tryMany(t *testing.T, l *locks.Locker, keys int) {
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() { _, _ = l.TryAcquire(t.Context(), locks.Request{Key: "user/many/" + strconv.Itoa(i)}) })
	}
	all.Wait()
}
