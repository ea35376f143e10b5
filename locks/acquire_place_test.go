package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// A place that the service may have is not forgotten because a later request for it does not get through: it would be granted to nobody.
// Nor is it given up: who came later is granted later.
func TestAcquireAgainIsUnreachable(t *testing.T) {
	unreachable := func(context.Context, string, func() error) error { return driver.ErrUnreachable }
	for name, doubt := range map[string]func(f *faulty, wait func(meta string) (stop func())){
		"the answer was lost": func(f *faulty, wait func(string) func()) {
			f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
				_ = do()
				f.on(only("queue", unreachable))
				return errors.New("no answer")
			}))
			wait("one")
		},
		"the next waiter has another meta": func(f *faulty, wait func(string) func()) {
			stop := wait("one")
			wait("two")
			f.on(only("queue", unreachable))
			stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, service := pair(t)
				later := start(t, service, locks.Options{Owner: "three"})
				release(t, take(t, l, "user/b")) // the session is open
				theirs := take(t, other, "user/a")
				var all sync.WaitGroup
				granted := 0
				doubt(f, func(meta string) func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					all.Go(func() {
						defer cancel()
						if leases, err := l.Acquire(ctx, locks.Request{Key: "user/a", Meta: meta}); err == nil {
							granted++
							release(t, leases...)
						}
					})
					synctest.Wait()
					return cancel
				})
				time.Sleep(time.Second)
				var last *locks.Lease
				before := 0
				all.Go(func() {
					last = acquire(t, later, key)
					before = granted
				})
				synctest.Wait()
				f.on(nil)
				time.Sleep(5 * time.Second)
				release(t, theirs)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if granted != 1 || before != 1 {
					t.Errorf("%d were granted within two seconds, %d of them before the one that came later", granted, before)
				}
				release(t, last)
				release(t, take(t, other, "user/a"))
				all.Wait()
			})
		})
	}
}

// The call of a release asks for the place of the next waiter. If that has left when the call ends without an answer, the place is
// given up, also if its grant is not notified.
func TestAcquireLeftDuringTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.deaf = true
		theirs := take(t, other, "user/a")
		var mine *locks.Lease
		var all sync.WaitGroup
		all.Go(func() { mine = acquire(t, l, key) })
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() {
			_, err := l.Acquire(ctx, key)
			wantErr(t, "acquire", err, locks.ErrBusy)
		})
		synctest.Wait()
		release(t, theirs)
		time.Sleep(2 * time.Second) // the first waiter has looked
		all.Go(func() { theirs = acquire(t, other, key) })
		synctest.Wait()
		f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
			_ = do()
			leave()
			synctest.Wait()
			return errors.New("no answer")
		}))
		_ = mine.Release(t.Context())
		f.on(nil)
		all.Wait()
		release(t, theirs)
		time.Sleep(2 * time.Second)
		release(t, take(t, other, "user/a"))
	})
}
