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

// The next waiter here does not wait for a hold that was evicted.
func TestAcquireAfterAnEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		first := take(t, l, "user/a")
		var second, third *locks.Lease
		var all sync.WaitGroup
		all.Go(func() { second = acquire(t, l, key) })
		synctest.Wait()
		all.Go(func() { third = acquire(t, l, key) })
		synctest.Wait()
		release(t, first)
		synctest.Wait()
		if ok, err := other.ForceRelease(t.Context(), "user/a", second.Token()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if third == nil || third.Check() != nil {
			t.Fatal("it waits for a hold that is gone")
		}
		all.Wait()
	})
}

// A wait tells whether the service is available, and who gives up tells nothing.
func TestAcquireTellsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		release(t, take(t, l, "user/a"))
		wait := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if leases, err := l.Acquire(ctx, key); err == nil {
				release(t, leases...)
			}
		}
		f.on(only("queue", hangs))
		wait(100 * time.Millisecond)
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("%+v: a caller gave up, which tells nothing about the service", st)
		}
		f.on(only("queue", func(context.Context, string, func() error) error { return driver.ErrUnreachable }))
		wait(time.Millisecond)
		if st := l.State(); st.Up || !errors.Is(st.Err, driver.ErrUnreachable) {
			t.Errorf("%+v: want it unavailable", st)
		}
		f.on(nil)
		wait(10 * time.Second)
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("%+v: want it available again", st)
		}
	})
}

// A lost notification delays a grant by a second at most.
func TestAcquireWithoutNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.deaf = true
		for _, after := range []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond, 2300 * time.Millisecond} {
			theirs := take(t, other, "user/a")
			var free time.Time
			time.AfterFunc(after, func() {
				free = time.Now()
				if err := theirs.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
			lease := acquire(t, l, key)
			if late := time.Since(free); late > time.Second {
				t.Errorf("granted %v after it was free, want a second at most", late)
			}
			release(t, lease)
		}
		before := f.count("look")
		time.Sleep(time.Minute)
		if n := f.count("look") - before; n > 1 {
			t.Errorf("looked %d times, and nothing waits", n)
		}
	})
}

// A grant that is notified twice, and one that is notified again when the next waiter has a place, is one grant.
func TestAcquireNotifiedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.told = make(chan driver.Grant, 2)
		held := take(t, other, "user/a")
		var first, second, theirs *locks.Lease
		var all sync.WaitGroup
		all.Go(func() { first = acquire(t, l, key) })
		synctest.Wait()
		all.Go(func() { second = acquire(t, l, key) })
		synctest.Wait()
		all.Go(func() { theirs = acquire(t, other, key) })
		synctest.Wait()
		granted := f.last.Session.Queue().Granted()

		release(t, held)
		one := <-granted
		f.told <- one
		f.told <- one
		synctest.Wait()
		if first == nil || first.Token() != one.Token || second != nil {
			t.Fatalf("%v and %v of the grant %+v, want the first alone", first, second, one)
		}
		release(t, first) // the second has a place now, behind the other Locker's
		f.told <- one
		synctest.Wait()
		if second != nil || theirs == nil {
			t.Fatalf("%v and %v of a grant that was released, want the other Locker's alone", second, theirs)
		}
		release(t, theirs)
		two := <-granted
		f.told <- two
		f.told <- one
		f.told <- two
		all.Wait()
		if second.Token() != two.Token {
			t.Errorf("%v of the grant %+v", second, two)
		}
		release(t, second)
		time.Sleep(2 * time.Second)
		release(t, take(t, other, "user/a"))
	})
}

// A dead holder, and a dead waiter, hold nobody up for longer than their session.
func TestAcquireBehindTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		dead, err := service.Open(t.Context(), driver.Open{Namespace: "lockstep", TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		want := []driver.Want{{Key: "user/a"}}
		for _, id := range []string{"holds", "waits"} {
			if _, err := dead.Queue().Acquire(t.Context(), id, nil, want); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		acquire(t, start(t, service, locks.Options{}), key)
		if waited := time.Since(began); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("waited for %v, want the session of 5 s and a second at most", waited)
		}
	})
}

// lossy carries out the calls to the queue without an answer, as often as that.
func lossy(f *faulty, times int) {
	f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
		err := do()
		if times--; times >= 0 {
			return errNet
		}
		return err
	}))
}

// A request without an answer is asked again under its id: nothing is held twice, and the order stays.
func TestAcquireWithoutAnswer(t *testing.T) {
	for lost := range 4 {
		synctest.Test(t, func(t *testing.T) {
			f, l, other, _ := pair(t)
			theirs := take(t, other, "user/b")
			lossy(f, lost)
			var leases []*locks.Lease
			var all sync.WaitGroup
			all.Go(func() {
				var err error
				if leases, err = l.Acquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"}, locks.Request{Key: "user/c"}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			var s turns
			s.wait(t.Context(), "other", other, locks.Request{Key: "user/b"}, time.Second)
			time.Sleep(time.Second)
			release(t, theirs)
			all.Wait()
			if err := l.Release(t.Context(), leases...); err != nil {
				t.Error(err)
			}
			s.want(t, "other")
			time.Sleep(time.Second)
			for _, k := range []string{"user/a", "user/b", "user/c"} {
				release(t, take(t, other, k))
			}
		})
	}
}

// A request that had no answer arrives once more after its lease was released: it is refused.
func TestAcquireDelayedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		var again func() error
		f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
			if again == nil {
				again = do
				return errNet
			}
			return do()
		}))
		lease := acquire(t, l, key)
		if again == nil {
			t.Fatal("nothing was lost")
		}
		release(t, lease)
		time.Sleep(2 * time.Second)
		if err := again(); err != nil {
			t.Error(err)
		}
		release(t, take(t, other, "user/a"))
	})
}

// Who gives up during a call leaves nothing behind, whatever the call did.
func TestAcquireGivenUpDuringTheCall(t *testing.T) {
	for _, carriedOut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, l, other, _ := pair(t)
			f.on(only("queue", func(ctx context.Context, call string, do func() error) error {
				if carriedOut {
					_ = do()
				}
				return hangs(ctx, call, do)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := l.Acquire(ctx, key)
			wantErr(t, "acquire", err, locks.ErrUnknown)
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			time.Sleep(time.Second)
			release(t, take(t, other, "user/a"))
		})
	}
}

// Waiters ask anew when their session ends, and wait through an outage.
func TestAcquireAfterTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		theirs := take(t, other, "user/a")
		var s turns
		s.wait(t.Context(), "first", l, key, time.Second)
		s.wait(t.Context(), "second", l, key, time.Second)
		service.Expire(f.last.ID())
		time.Sleep(10 * time.Second)
		s.wait(t.Context(), "other", other, key, time.Second)
		release(t, theirs)
		s.want(t, "first", "other", "second")

		service.Stop()
		s = turns{}
		s.wait(t.Context(), "first", l, key, time.Second)
		s.wait(t.Context(), "second", l, key, time.Second)
		time.Sleep(time.Minute)
		service.Start()
		s.want(t, "first", "second")
	})
}

// What was acquired while other keys are waited for is held at the end, or acquired anew.
func TestAcquireAfterALoss(t *testing.T) {
	for name, loseA := range map[string]func(f *faulty, other *locks.Locker, service *memlock.Service){
		"session": func(f *faulty, _ *locks.Locker, service *memlock.Service) { service.Expire(f.last.ID()) },
		"evicted": func(_ *faulty, other *locks.Locker, _ *memlock.Service) {
			for info := range other.Inspect(context.Background(), "user/a") {
				_, _ = other.ForceRelease(context.Background(), info.Key, info.Token)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, service := pair(t)
				theirs := take(t, other, "user/b")
				var leases []*locks.Lease
				var all sync.WaitGroup
				all.Go(func() {
					var err error
					if leases, err = l.Acquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"}); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				loseA(f, other, service)
				time.Sleep(10 * time.Second)
				release(t, theirs)
				all.Wait()
				for _, lease := range leases {
					if err := lease.Check(); err != nil {
						t.Error(err)
					}
					wantBusy(t, other, lease.Key())
				}
			})
		})
	}
}

// If sessions end as soon as they ask, the service counts as unavailable when the wait ends.
func TestAcquireWhileSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("queue", func(context.Context, string, func() error) error { return driver.ErrSessionEnded }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, key)
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want it to say that the time was over", err)
		}
	})
}
