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
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// Without a queue, what was granted behind a busy key is freed, all of it, also if a release fails.
func TestAcquireWithoutQueueFreesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		withoutQueue(f)
		l, other := start(t, f, locks.Options{}), start(t, f.Driver, locks.Options{})
		take(t, other, "user/a")
		f.on(only("release", func(_ context.Context, _ string, do func() error) error {
			f.on(nil)
			return errNet
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"}, locks.Request{Key: "user/c"})
		wantErr(t, "acquire", err, locks.ErrBusy)
		time.Sleep(5 * time.Second)
		take(t, other, "user/b")
		take(t, other, "user/c")
	})
}

// A place is granted while the call that asks for it is under way, and the call says that the session has ended: nothing is left to be
// asked for again.
func TestAcquireGrantedDuringTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		release(t, take(t, l, "user/b")) // the session is open
		theirs := take(t, other, "user/a")
		f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
			f.on(nil)
			if err := do(); err != nil {
				t.Error(err)
			}
			release(t, theirs)
			synctest.Wait()
			return driver.ErrSessionEnded
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		leases, err := l.Acquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		release(t, leases...)
		take(t, other, "user/a")
	})
}

// A look that began before says that a place is gone, when the next waiter has asked under the same id again: its grant has an owner.
func TestAcquireAgainDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.deaf = true
		theirs := take(t, other, "user/a")
		var all sync.WaitGroup
		first, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := l.Acquire(first, locks.Request{Key: "user/a", Meta: "one"}); !errors.Is(err, context.Canceled) {
				t.Error("the first:", err)
			}
		})
		synctest.Wait()
		second, retaken := false, make(chan *locks.Lease, 1)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			leases, err := l.Acquire(ctx, locks.Request{Key: "user/a", Meta: "two"})
			second = err == nil
			release(t, leases...)
		})
		synctest.Wait()
		f.on(only("look", func(_ context.Context, _ string, do func() error) error {
			f.on(nil)
			release(t, theirs) // to the place, which is evicted then
			for info, err := range other.Inspect(t.Context(), "user/a") {
				if ok, forced := other.ForceRelease(t.Context(), info.Key, info.Token); err != nil || !ok || forced != nil {
					t.Error(err, ok, forced)
				}
			}
			retaken <- take(t, other, "user/a")
			err := do()
			leave()
			synctest.Wait() // the second waiter has asked again, and is queued
			return err
		}))
		time.Sleep(1500 * time.Millisecond)
		release(t, <-retaken)
		all.Wait()
		if !second {
			t.Error("the second waiter was not granted the key that nobody else has")
		}
		take(t, other, "user/a")
	})
}

// A leader whose Locker is closed is told so, whatever its work returns.
func TestLeadOnAClosedLocker(t *testing.T) {
	for what, end := range map[string]func(ctx context.Context) error{
		"the end of its context": func(ctx context.Context) error { return ctx.Err() },
		"its cause":              func(ctx context.Context) error { return context.Cause(ctx) },
		"nothing":                func(context.Context) error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l, _, _ := pair(t)
				closed := make(chan error, 1)
				time.AfterFunc(time.Minute, func() { closed <- l.Close(t.Context()) })
				err := locks.Lead(t.Context(), l, "leader", func(ctx context.Context, _ locks.Token) error {
					<-ctx.Done()
					return end(ctx)
				})
				if err := <-closed; err != nil {
					t.Error(err)
				}
				if wantErr(t, "lead", err, locks.ErrUnavailable); errors.Is(err, context.Canceled) {
					t.Errorf("%v: nobody has cancelled it", err)
				}
			})
		})
	}
}
