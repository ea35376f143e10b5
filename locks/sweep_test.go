package locks_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// An acquisition without an answer is asked for again at once, and a last time a ttl after the first try. What that grants is released,
// and nothing else.
func TestUnknownIsAskedForTwice(t *testing.T) {
	for name, busy := range map[string]bool{"free": false, "another session has it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				if busy {
					take(t, other, "user/a")
				}
				f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
					if f.count("acquire") <= 2 {
						return errNet
					}
					return do()
				}))
				began := time.Now()
				wantErr(t, "attempt", try(t, l, key).Err, locks.ErrUnknown)
				for _, c := range []struct {
					after              time.Duration
					acquires, releases int
				}{{0, 3, 1}, {10*time.Second - 1, 3, 1}, {10 * time.Second, 4, 2}, {time.Minute, 4, 2}} {
					time.Sleep(time.Until(began.Add(c.after)))
					synctest.Wait()
					if busy {
						c.releases = 0
					}
					if a, r := f.count("acquire"), f.count("release"); a != c.acquires || r != c.releases {
						t.Errorf("after %v: %d acquires and %d releases, want %d and %d", c.after, a, r, c.acquires, c.releases)
					}
				}
			})
		})
	}
}

// The last try comes a ttl after the first one to the second, whatever part of the ttl may be trusted, and however late the
// one before was answered.
func TestUnknownIsAskedForByTheTTL(t *testing.T) {
	for name, answers := range map[string]time.Duration{"at once": 0, "when less is left than may be trusted": 9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(memlock.New())
				f.caps = &driver.Caps{TrustMargin: 3 * time.Second}
				l := start(t, f, locks.Options{TTL: 11 * time.Second})
				began, answered := time.Now(), new(atomic.Int32)
				f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
					if f.count("acquire") <= 2 || time.Since(began) < answers {
						return errNet
					}
					answered.Add(1)
					return do()
				}))
				wantErr(t, "attempt", try(t, l, key).Err, locks.ErrUnknown)
				time.Sleep(11*time.Second - 1)
				before := answered.Load()
				time.Sleep(time.Second)
				after := answered.Load()
				time.Sleep(time.Minute)
				if all := answered.Load(); before != 1 || after != 2 || all != 2 {
					t.Errorf("answered %d times within a ttl, %d times by its end, %d times in all; want 1, 2 and 2", before, after, all)
				}
			})
		})
	}
}

// The last try for one call settles nothing of a later one.
func TestUnknownOfALaterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		tries := map[string][]time.Duration{}
		began := time.Now()
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			f.mu.Lock()
			of := f.wants[0].Key
			f.mu.Unlock()
			if tries[of] = append(tries[of], time.Since(began)); len(tries[of]) <= 2 {
				return errNet
			}
			return do()
		}))
		for _, k := range []string{"user/a", "user/b"} {
			wantErr(t, k, try(t, l, locks.Request{Key: k}).Err, locks.ErrUnknown)
			time.Sleep(5500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[string][]time.Duration{
			"user/a": {0, 0, 0, 10 * time.Second},
			"user/b": {5500 * time.Millisecond, 5500 * time.Millisecond, 6 * time.Second, 16 * time.Second},
		}
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
	})
}

// A service that renews the session and answers for no key may do so for long. What it granted in that time is freed when it
// answers again.
func TestUnknownForLong(t *testing.T) {
	for name, lost := range map[string]func(do func() error){
		"nothing arrives":      func(func() error) {},
		"the answers are lost": func(do func() error) { _ = do() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
					if f.count("acquire") == 1 { // the first is granted
						_ = do()
					} else {
						lost(do)
					}
					return errNet
				}))
				wantErr(t, "attempt", try(t, l, locks.Request{Key: "user/a"}).Err, locks.ErrUnknown)
				time.Sleep(45 * time.Second) // four and a half times the ttl
				wantErr(t, "the other's attempt", try(t, other, locks.Request{Key: "user/a"}).Err, locks.ErrBusy)
				f.on(nil)
				time.Sleep(time.Second)
				take(t, other, "user/a")
				asked := f.count("acquire")
				time.Sleep(time.Minute)
				if n := f.count("acquire"); n != asked {
					t.Errorf("asked %d times more of what is free", n-asked)
				}
			})
		})
	}
}

// Of those that are never answered for, a thousand are remembered for longer than two ttls, and all until then, whatever
// part of a ttl may be trusted.
func TestUnknownOfMany(t *testing.T) {
	for name, c := range map[string]struct {
		margin, away time.Duration
		want         int
	}{"for long": {0, time.Minute, 1000}, "for less than two ttls": {3 * time.Second, 17 * time.Second, 1100}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				f := newFaulty(service)
				f.caps = &driver.Caps{TrustMargin: c.margin}
				l, other := start(t, f, locks.Options{TTL: 11 * time.Second}), start(t, service, locks.Options{})
				f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
					time.Sleep(time.Second)
					_ = do()
					return errNet
				}))
				const many = 1100
				var all sync.WaitGroup
				for n := range many {
					all.Go(func() { try(t, l, locks.Request{Key: fmt.Sprint("user/", n)}) })
				}
				all.Wait()
				free := func() (n int) {
					for i := range many {
						a := try(t, other, locks.Request{Key: fmt.Sprint("user/", i)})
						if a.Lease != nil {
							n++
							if err := a.Lease.Release(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
					return n
				}
				time.Sleep(c.away)
				if n := free(); n != 0 {
					t.Errorf("%d are free; want none while no call returned them as held", n)
				}
				f.on(nil)
				time.Sleep(2 * time.Second)
				if n := free(); n != c.want {
					t.Errorf("%d of %d are free, want %d", n, many, c.want)
				}
			})
		})
	}
}

// A key for which the service never answers holds up no other one.
func TestUnknownBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		down := true
		f.on(only("acquire", func(ctx context.Context, _ string, do func() error) error {
			f.mu.Lock()
			of, all := f.wants[0].Key, down
			f.mu.Unlock()
			if all || of == "user/a" || of == "user/c" {
				_ = do()
				<-ctx.Done()
				return errNet
			}
			return do()
		}))
		for _, k := range []string{"user/a", "user/b", "user/c", "user/d"} {
			wantErr(t, k, try(t, l, locks.Request{Key: k}).Err, locks.ErrUnknown)
			time.Sleep(2 * time.Second) // the renewal that says that the service is back
		}
		f.mu.Lock()
		down = false
		f.mu.Unlock()
		time.Sleep(10 * time.Second) // two that take the whole of a call's time, and one for the pauses
		take(t, other, "user/b")
		take(t, other, "user/d")
		for _, k := range []string{"user/a", "user/c"} {
			wantErr(t, k, try(t, other, locks.Request{Key: k}).Err, locks.ErrBusy)
		}
	})
}

// A key whose release was not confirmed is freed soon after the service is back, also when it is not the first one.
func TestUnconfirmedReleaseIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		for range 3 {
			lease, before := take(t, l, "user/a"), f.count("release")
			f.on(only("release", func(_ context.Context, _ string, do func() error) error {
				if f.count("release")-before <= 1 {
					return errNet
				}
				return do()
			}))
			if err := lease.Release(t.Context()); err == nil {
				t.Error("the release was confirmed")
			}
			synctest.Wait()
			theirs := take(t, other, "user/a")
			if err := theirs.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond) // the renewal that says that the service is back
		}

		lease, before := take(t, l, "user/a"), f.count("release")
		f.on(only("release", func(context.Context, string, func() error) error { return errNet }))
		_ = lease.Release(t.Context())
		time.Sleep(3 * time.Second)
		if n := f.count("release") - before; n < 6 || n > 9 {
			t.Errorf("%d releases in 3 s, want a few at first, and then one a second", n)
		}
		f.on(nil)
		time.Sleep(time.Second)
		take(t, other, "user/a")
		done := f.count("release")
		time.Sleep(time.Minute)
		if n := f.count("release"); n != done {
			t.Errorf("%d releases more of what is free", n-done)
		}
	})
}

// Each trouble is met by quick tries at first, however long the one before has taken.
func TestSweepTriesQuicklyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			if f.count("acquire") <= 5 { // the lease, two tries, and two that settle them
				return errNet
			}
			return do()
		}))
		wantErr(t, "attempt", try(t, l, locks.Request{Key: "user/b"}).Err, locks.ErrUnknown)
		for _, c := range []struct {
			after    time.Duration // the one before
			acquires int
		}{{0, 4}, {50 * time.Millisecond, 5}, {100 * time.Millisecond, 6}, {time.Second, 6}} {
			time.Sleep(c.after)
			synctest.Wait()
			if n := f.count("acquire"); n != c.acquires {
				t.Errorf("after %v more: %d acquires, want %d", c.after, n, c.acquires)
			}
		}

		var releases []time.Time
		f.on(only("release", func(_ context.Context, _ string, do func() error) error {
			if releases = append(releases, time.Now()); len(releases) <= 2 {
				return errNet
			}
			return do()
		}))
		if err := lease.Release(t.Context()); err == nil {
			t.Error("the release was confirmed")
		}
		time.Sleep(2 * time.Second)
		take(t, other, "user/a")
		if len(releases) != 3 || releases[2].Sub(releases[1]) != 50*time.Millisecond {
			t.Errorf("released at %v, want the last two 50 ms apart", releases)
		}
	})
}
