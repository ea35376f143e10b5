package locks_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// unanswered are calls without an answer; those that satisfy arrives are carried out.
func unanswered(arrives func(call string) bool, calls ...string) func(context.Context, string, func() error) error {
	return func(_ context.Context, call string, do func() error) error {
		if !slices.Contains(calls, call) {
			return do()
		}
		if arrives(call) {
			_ = do()
		}
		return errNet
	}
}

// An acquisition without an answer is abandoned, at once and once: nothing is acquired anew to find out, and nobody else's key is freed.
func TestUnknownIsAbandoned(t *testing.T) {
	for name, busy := range map[string]bool{"free": false, "another session has it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				if busy {
					take(t, other, "user/a")
				}
				f.on(unanswered(func(string) bool { return true }, "acquire"))
				wantErr(t, "attempt", try(t, l, key).Err, locks.ErrUnknown)
				for range 2 {
					synctest.Wait()
					if n := f.counts(); n["acquire"] != 2 || n["abandon"] != 1 || n["release"] != 0 {
						t.Errorf("calls: %v; want two that acquire and one that abandons", n)
					}
					time.Sleep(time.Minute)
				}
				f.on(nil)
				if busy {
					wantBusy(t, l, "user/a")
				} else {
					take(t, other, "user/a")
				}
			})
		})
	}
}

// A key is granted by the second request of an acquisition, and the first one, which had no answer, arrives after its lease has ended:
// it is refused.
func TestDelayedRequestOfATry(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, l *locks.Locker, lease *locks.Lease){
		"released": func(t *testing.T, _ *locks.Locker, lease *locks.Lease) { release(t, lease) },
		"evicted": func(t *testing.T, l *locks.Locker, lease *locks.Lease) {
			if ok, err := l.ForceRelease(t.Context(), lease.Key(), lease.Token()); !ok || err != nil {
				t.Fatalf("force release: %t, %v", ok, err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
					if f.count("acquire") > 1 {
						return do()
					}
					go func() { time.Sleep(5 * time.Second); _ = do() }()
					return errNet
				}))
				end(t, l, take(t, l, "user/a"))
				time.Sleep(6 * time.Second)
				take(t, other, "user/a")
			})
		})
	}
}

// A service that renews the session and answers for no key may do so for long. What it granted in that time is freed as soon as a call
// that abandons it arrives, and asked for no more once one was answered.
func TestUnknownForLong(t *testing.T) {
	for name, arrives := range map[string]bool{"nothing arrives": false, "the answers are lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				first := true // is granted
				f.on(unanswered(func(string) bool { was := first; first = false; return was || arrives }, "acquire", "abandon"))
				wantErr(t, "attempt", try(t, l, key).Err, locks.ErrUnknown)
				time.Sleep(45 * time.Second) // four and a half times the ttl
				if a := try(t, other, key); (a.Lease != nil) != arrives {
					t.Errorf("the other's attempt: %+v", a)
				} else if arrives {
					release(t, a.Lease)
				}
				f.on(nil)
				time.Sleep(time.Second)
				take(t, other, "user/a")
				abandoned := f.count("abandon")
				time.Sleep(time.Minute)
				if n := f.count("abandon"); n != abandoned {
					t.Errorf("abandoned %d times more", n-abandoned)
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
				f.on(func(_ context.Context, call string, do func() error) error {
					switch call {
					case "acquire":
						time.Sleep(time.Second)
						_ = do()
						return errNet
					case "abandon":
						return errNet
					}
					return do()
				})
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
					t.Errorf("%d are free; want none while no call that abandons them has arrived", n)
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
		f.on(func(ctx context.Context, call string, do func() error) error {
			f.mu.Lock()
			of, all := f.abandons, down
			f.mu.Unlock()
			switch {
			case call == "acquire":
				_ = do()
				return errNet
			case call == "abandon" && (all || slices.Contains(of, "user/a") || slices.Contains(of, "user/c")):
				<-ctx.Done()
				return errNet
			}
			return do()
		})
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
		f.on(func(_ context.Context, call string, do func() error) error {
			if call == "acquire" || call == "abandon" && f.count("abandon") <= 2 {
				return errNet
			}
			return do()
		})
		wantErr(t, "attempt", try(t, l, locks.Request{Key: "user/b"}).Err, locks.ErrUnknown)
		for _, c := range []struct {
			after    time.Duration // the one before
			abandons int
		}{{0, 1}, {50 * time.Millisecond, 2}, {100 * time.Millisecond, 3}, {time.Second, 3}} {
			time.Sleep(c.after)
			synctest.Wait()
			if n := f.count("abandon"); n != c.abandons {
				t.Errorf("after %v more: abandoned %d times, want %d", c.after, n, c.abandons)
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
