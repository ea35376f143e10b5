package locks_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// acquire waits for one key.
func acquire(t *testing.T, l *locks.Locker, r locks.Request) *locks.Lease {
	t.Helper()
	leases, err := l.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return leases[0]
}

func release(t *testing.T, leases ...*locks.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// turns records who was served, in order.
type turns struct {
	mu     sync.Mutex
	all    sync.WaitGroup
	served []string
	errs   []error
}

// wait has a caller wait for r in the background, hold it for a while, and release it. It returns once that waits.
func (s *turns) wait(ctx context.Context, name string, l *locks.Locker, r locks.Request, hold time.Duration) {
	s.all.Go(func() {
		leases, err := l.Acquire(ctx, r)
		s.mu.Lock()
		if err == nil {
			s.served = append(s.served, name)
		} else {
			s.errs = append(s.errs, err)
		}
		s.mu.Unlock()
		if err == nil {
			time.Sleep(hold)
			if err := leases[0].Release(context.Background()); err != nil {
				panic(err)
			}
		}
	})
	synctest.Wait()
}

func (s *turns) want(t *testing.T, want ...string) {
	t.Helper()
	s.all.Wait()
	if !slices.Equal(s.served, want) || len(s.errs) > 0 {
		t.Errorf("served %v, want %v; errors: %v", s.served, want, s.errs)
	}
}

// Lockers with one waiter each are served in the order in which they came, and a waiter of the Locker that holds the key
// does not come before those.
func TestAcquireInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		var s turns
		var want []string
		for i := range 20 {
			name := fmt.Sprint(i)
			s.wait(t.Context(), name, start(t, service, locks.Options{}), key, 10*time.Millisecond)
			want = append(want, name)
		}
		s.want(t, want...)
	})
}

func TestAcquireBehindItsOwnHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		first := acquire(t, l, key)
		var s turns
		s.wait(t.Context(), "l", l, key, time.Second)
		s.wait(t.Context(), "other", other, key, time.Second)
		s.wait(t.Context(), "l again", l, key, time.Second)
		release(t, first)
		s.want(t, "l", "other", "l again")
	})
}

// Fifty waiters of one Locker and one of another take turns, and each turn of theirs is one call.
func TestAcquireLockersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		first := acquire(t, l, key)
		var s turns
		var want []string
		for i := range 50 {
			name := fmt.Sprint(i)
			s.wait(t.Context(), name, l, key, 10*time.Millisecond)
			if i < 2 {
				want = append(want, name, "other")
				s.wait(t.Context(), "other", other, key, 10*time.Millisecond)
			} else {
				want = append(want, name)
			}
		}
		before := f.counts()
		release(t, first)
		s.want(t, want...)
		after := f.counts()
		// The first place was asked for when its waiter came; the last turn leaves nobody.
		if asked, freed := after["queue"]-before["queue"], after["release"]-before["release"]; asked != 49 || freed != 2 {
			t.Errorf("%d places and %d releases, want 49 places that release in the same call, and 2 releases", asked, freed)
		}
	})
}

// A new waiter of the other Locker comes for each turn: it waits for one turn of the fifty, not for all.
func TestAcquireManyStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		first := acquire(t, l, key)
		var s turns
		for range 50 {
			s.wait(t.Context(), "many", l, key, 100*time.Millisecond)
		}
		release(t, first)
		for range 20 {
			began := time.Now()
			lease := acquire(t, other, key)
			if waited := time.Since(began); waited > 100*time.Millisecond {
				t.Errorf("waited for %v, want one turn", waited)
			}
			release(t, lease)
		}
		s.all.Wait()
		if len(s.served) != 50 {
			t.Errorf("%d were served, want 50", len(s.served))
		}
	})
}

// Several keys are one call where they are free, and one that frees them.
func TestAcquireSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		reqs := []locks.Request{{Key: "user/c"}, {Key: "user/a"}, {Key: "user/b"}}
		leases, err := l.Acquire(t.Context(), reqs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range reqs {
			if leases[i].Key() != r.Key || leases[i].Check() != nil {
				t.Errorf("lease %d: %s, %v", i, leases[i].Key(), leases[i].Check())
			}
			wantBusy(t, other, r.Key)
		}
		if err := l.Release(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
		if n := f.counts(); n["queue"] != 1 || n["release"] != 1 {
			t.Errorf("calls: %v, want one that acquires and one that releases", n)
		}

		// b is held: a is acquired, c is not before b.
		theirs := take(t, other, "user/b")
		var got []*locks.Lease
		var all sync.WaitGroup
		all.Go(func() { got, err = l.Acquire(t.Context(), reqs...) })
		synctest.Wait()
		wantBusy(t, other, "user/a")
		release(t, take(t, other, "user/c"))
		release(t, theirs)
		all.Wait()
		if err != nil || len(got) != 3 {
			t.Fatalf("%v, %v", got, err)
		}
		if n := f.count("queue"); n != 3 { // a and the place for b; c
			t.Errorf("%d calls, want 3", n)
		}
	})
}

// Philosophers: each wants two of five keys, in any order. None waits for ever.
func TestAcquireDoesNotDeadlock(t *testing.T) {
	for _, fifo := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			service := memlock.New()
			var all sync.WaitGroup
			for i := range 5 {
				f := newFaulty(service)
				if !fifo {
					withoutQueue(f)
				}
				l := start(t, f, locks.Options{})
				for _, n := range []int{1, 2} {
					all.Go(func() {
						for range 20 {
							leases, err := l.Acquire(t.Context(),
								locks.Request{Key: fmt.Sprint("user/", (i+n)%5)}, locks.Request{Key: fmt.Sprint("user/", i)})
							if err != nil {
								t.Error(err)
								return
							}
							time.Sleep(time.Millisecond)
							if err := l.Release(t.Context(), leases...); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// The end of ctx gives back the place and what was acquired before it.
func TestAcquireGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, service := pair(t)
		third := start(t, service, locks.Options{Owner: "three"})
		theirs := take(t, other, "user/b")
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond) // between two looks
		defer cancel()
		leases, err := l.Acquire(ctx, locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"})
		wantErr(t, "acquire", err, locks.ErrBusy)
		want := regexp.MustCompile(`^locks: acquire: lock busy: user/b: held by two since 2000-01-01T00:00:00Z, for [89]\.333s at most without a renewal: context deadline exceeded$`)
		if leases != nil || !errors.Is(err, context.DeadlineExceeded) || !want.MatchString(said(err)) {
			t.Errorf("%v, %q", leases, said(err))
		}
		synctest.Wait()
		release(t, take(t, other, "user/a"))
		release(t, theirs)
		release(t, take(t, third, "user/b"))
		release(t, take(t, l, "user/b")) // nobody waits here
	})
}

// A waiter whose turn comes leaves while the release that asks for its place is under way.
func TestAcquireLeavesDuringATurn(t *testing.T) {
	for _, next := range []string{"nobody", "same kind", "other kind"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				first := take(t, l, "user/a")
				var s, gone turns
				s.wait(t.Context(), "first", l, key, time.Second) // has a place
				ctx, cancel := context.WithCancel(t.Context())
				gone.wait(ctx, "gone", l, key, time.Second)
				want := []string{"first"}
				switch next {
				case "same kind":
					s.wait(t.Context(), "next", l, key, time.Second)
					want = append(want, "next")
				case "other kind":
					s.wait(t.Context(), "next", l, locks.Request{Key: "user/a", Mode: locks.Shared}, time.Second)
					want = append(want, "next")
				}
				f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
					time.Sleep(500 * time.Millisecond)
					return do()
				}))
				release(t, first)
				time.Sleep(1300 * time.Millisecond) // the turn of the first ended a moment ago
				cancel()
				gone.all.Wait()
				if len(gone.errs) != 1 {
					t.Errorf("served %v, want it to be given up", gone.served)
				}
				s.want(t, want...)
				time.Sleep(2 * time.Second)
				f.on(nil)
				release(t, take(t, other, "user/a"))
				release(t, take(t, l, "user/a"))
			})
		})
	}
}

// Who leaves passes its place on: the next one here does not go behind others.
func TestAcquirePassesItsPlaceOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, service := pair(t)
		third := start(t, service, locks.Options{})
		first := take(t, other, "user/a")
		ctx, cancel := context.WithCancel(t.Context())
		var s, gone turns
		gone.wait(ctx, "gone", l, key, 0)
		s.wait(t.Context(), "l", l, locks.Request{Key: "user/a", Meta: "the second"}, time.Second)
		s.wait(t.Context(), "third", third, key, time.Second)
		cancel()
		gone.all.Wait()
		synctest.Wait()
		if len(gone.errs) != 1 {
			t.Errorf("served %v", gone.served)
		}
		release(t, first)
		synctest.Wait()
		for info, err := range other.Inspect(t.Context(), "user/a") {
			if err != nil || info.Place == 0 && info.Meta != "the second" {
				t.Errorf("%+v, %v: want the one that holds it now", info, err)
			}
		}
		s.want(t, "l", "third")
	})
}

func TestAcquireRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		caps := f.Driver.Caps()
		caps.Shared, caps.Limit = false, false
		f.caps = &caps
		for want, reqs := range map[string][]locks.Request{
			`locks: acquire: key user/a: memory has no shared mode: unsupported operation`: {{Key: "user/a", Mode: locks.Shared}},
			`locks: acquire: key user/a: memory has no limit: unsupported operation`:       {{Key: "user/a", Limit: 2}},
			`locks: acquire: key user/a: asked for twice`:                                  {{Key: "user/a"}, {Key: "user/b"}, {Key: "user/a"}},
			`locks: acquire: key user/a: mode 2: must be Exclusive or Shared`:              {{Key: "user/a", Mode: 2}},
			`locks: acquire: key user/a: limit 10001: must be 10000 at most`:               {{Key: "user/a", Limit: 10_001}},
			`locks: acquire: key user/a: limit -1: must be 1 or more, or 0 for one holder`: {{Key: "user/a", Limit: -1}},
			`locks: acquire: key user/a: shared with a limit of 2: must be one of the two`: {{Key: "user/a", Limit: 2, Mode: locks.Shared}},
		} {
			leases, err := l.Acquire(t.Context(), reqs...)
			if leases != nil || said(err) != want {
				t.Errorf("%v, %q, want %q", leases, said(err), want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Acquire(ctx, key); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if n := len(f.counts()); n != 0 {
			t.Errorf("calls: %v", f.counts())
		}
		if leases, err := l.Acquire(t.Context()); err != nil || len(leases) != 0 {
			t.Errorf("no request: %v, %v", leases, err)
		}
	})
}

// Without a queue the first waiter of a Locker tries again, and the next one is told when the key is released here.
func TestAcquireWithoutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		withoutQueue(f)
		l, other := start(t, f, locks.Options{}), start(t, f.Driver, locks.Options{})
		var s turns
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			s.wait(t.Context(), want[i], l, key, time.Second)
		}
		began := time.Now()
		s.want(t, want...)
		if took := time.Since(began); took != 10*time.Second || f.count("acquire") != 10 {
			t.Errorf("10 turns of a second took %v and %d calls, want no pause and no call beside", took, f.count("acquire"))
		}

		// What shares a hold of this Locker asks at once; what does not waits for its end, without a call.
		shared := locks.Request{Key: "user/s", Mode: locks.Shared}
		mine, second := acquire(t, l, shared), acquire(t, l, shared)
		before := f.count("acquire")
		s = turns{}
		s.wait(t.Context(), "writer", l, locks.Request{Key: "user/s"}, time.Second)
		time.Sleep(time.Minute)
		if n := f.count("acquire") - before; n != 0 {
			t.Errorf("asked %d times for a key that this Locker holds", n)
		}
		release(t, mine, second)
		s.want(t, "writer")

		// c is not kept while b is waited for.
		theirs := take(t, other, "user/b")
		var all sync.WaitGroup
		all.Go(func() {
			leases, err := l.Acquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"}, locks.Request{Key: "user/c"})
			if err != nil || len(leases) != 3 {
				t.Errorf("%v, %v", leases, err)
			}
		})
		time.Sleep(time.Minute)
		wantBusy(t, other, "user/a")
		release(t, take(t, other, "user/c"))
		release(t, theirs)
		all.Wait()
	})
}

// A thousand increments of a counter that nothing else protects.
func TestAcquireExcludes(t *testing.T) {
	service := memlock.New()
	lockers := make([]*locks.Locker, 4)
	for i := range lockers {
		lockers[i] = start(t, service, locks.Options{})
	}
	counter := 0
	var last locks.Token
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			err := locks.Do(t.Context(), lockers[i%len(lockers)], key, func(_ context.Context, token locks.Token) error {
				if token <= last {
					t.Errorf("token %d after %d", token, last)
				}
				last = token
				counter++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if counter != 1000 {
		t.Errorf("%d, want 1000", counter)
	}
}
