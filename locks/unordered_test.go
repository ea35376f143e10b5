package locks_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// A service may have a queue without order (Caps.FIFO is false). Then too a waiter has a place there, and is not polled for: each turn is
// one call. While its own Locker has the key it has none, for it has no place to lose: the Locker would wait for itself.
func TestAcquireWithoutOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		f := newFaulty(service)
		withoutOrder(f)
		l, other := start(t, f, locks.Options{}), start(t, service, locks.Options{})
		held := acquire(t, l, locks.Request{Key: "a"})
		asked := f.count("queue")
		var s turns
		s.wait(t.Context(), "first", l, locks.Request{Key: "a"}, time.Second)
		s.wait(t.Context(), "second", l, locks.Request{Key: "a"}, time.Second)
		if n := f.count("queue") - asked; n > 0 {
			t.Errorf("%d calls for places behind its own hold", n)
		}
		s.wait(t.Context(), "other", other, locks.Request{Key: "a"}, time.Second)
		release(t, held)
		s.want(t, "other", "first", "second")
		if n := f.count("queue") - asked; n != 2 {
			t.Errorf("%d calls for two turns", n)
		}
		if n := f.count("acquire"); n > 0 {
			t.Errorf("%d tries", n)
		}
	})
}

// Many clients of one Locker, and of many, count one by one, each in its turn.
func TestCounterWithoutOrder(t *testing.T) {
	for lockers, each := range map[int]int{1: 1000, 100: 10} {
		t.Run(fmt.Sprint(lockers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				var mu sync.Mutex // for the race detector
				count := 0
				var all sync.WaitGroup
				for range lockers {
					f := newFaulty(service)
					withoutOrder(f)
					l := start(t, f, locks.Options{})
					for range each {
						all.Go(func() {
							lease := acquire(t, l, locks.Request{Key: "a"})
							mu.Lock()
							was := count
							mu.Unlock()
							time.Sleep(time.Microsecond)
							mu.Lock()
							count = was + 1
							mu.Unlock()
							release(t, lease)
						})
					}
				}
				all.Wait()
				if count != 1000 {
					t.Errorf("counted %d, want 1000", count)
				}
			})
		})
	}
}

// Where the service promises nothing (the zero Caps), and also where its sessions have no queue, the waiters of one Locker are served by
// arrival, and a try of the same Locker does not overtake them, though the key is free.
func TestWaitersOfOneLockerAreServedByArrival(t *testing.T) {
	for name, polls := range map[string]bool{"a queue without order": false, "no queue": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				f := newFaulty(service)
				f.caps, f.polls, f.deaf = &driver.Caps{}, polls, true // grants are found by Look, a second later at most
				l, other := start(t, f, locks.Options{}), start(t, service, locks.Options{})
				held := acquire(t, other, key)
				var s turns
				var want []string
				for i := range 10 {
					want = append(want, fmt.Sprint(i))
					s.wait(t.Context(), want[i], l, key, 10*time.Millisecond)
				}
				release(t, held)
				before := f.count("acquire")
				a := try(t, l, key) // before the first waiter asks again
				wantErr(t, "a try", a.Err, locks.ErrBusy)
				release(t, a.Lease)
				if n := f.count("acquire") - before; n > 0 {
					t.Errorf("the service was asked %d times for it", n)
				}
				s.want(t, want...)
				release(t, take(t, l, key.Key))
			})
		})
	}
}
