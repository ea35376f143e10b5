package locks_test

import (
	"context"
	"errors"
	"strings"
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

// slowly carries out the n-th acquire at once and answers it a second later.
func slowly(f *faulty, n int) func(context.Context, string, func() error) error {
	return only("acquire", func(_ context.Context, _ string, do func() error) error {
		slow := f.count("acquire") == n
		err := do()
		if slow {
			time.Sleep(time.Second)
		}
		return err
	})
}

// A call that finds a key held by its own session leaves it alone while the answer of the call that took it is on its way.
func TestBusyDuringAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.on(slowly(f, 1))
		var lease *locks.Lease
		var taken sync.WaitGroup
		taken.Go(func() { lease = take(t, l, "user/a") })
		synctest.Wait()
		wantBusy(t, l, "user/a")
		taken.Wait()
		time.Sleep(5 * time.Second)
		wantBusy(t, other, "user/a")
		if err := lease.Check(); err != nil || f.count("release") != 0 {
			t.Errorf("check: %v; %d releases", err, f.count("release"))
		}
	})
}

// A grant that was taken away before its answer came is none, and leaves the next one alone.
func TestAnswersInAnotherOrderThanGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		f.on(slowly(f, 1))
		var late locks.Attempt
		var answered sync.WaitGroup
		answered.Go(func() { late = try(t, l, key) })
		synctest.Wait()
		for info := range other.Inspect(t.Context(), "user/a") {
			if ok, err := other.ForceRelease(t.Context(), info.Key, info.Token); !ok || err != nil {
				t.Fatalf("force release: %v, %v", ok, err)
			}
		}
		lease, since := take(t, l, "user/a"), time.Now()
		answered.Wait()
		wantErr(t, "the late answer", late.Err, locks.ErrBusy)
		if said(late.Err) != "lock busy: user/a: held by one since 2000-01-01T00:00:00Z, for 9s at most without a renewal" {
			t.Errorf("it says %q", said(late.Err))
		}
		want := &locks.Info{Key: "user/a", Token: lease.Token(), Session: f.last.ID(), Owner: "one", Since: since.UTC(), Remaining: 9 * time.Second}
		if diff := cmp.Diff(want, late.Holder); late.Lease != nil || diff != "" {
			t.Errorf("lease %v; holder (-want +got):\n%s", late.Lease, diff)
		}
		time.Sleep(time.Minute)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A second try that finds the session over says that the first one granted nothing.
func TestSecondTryFindsSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		old := take(t, l, "user/old")
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			if f.count("acquire") == 2 {
				service.Expire(f.last.ID())
				return errNet
			}
			return do()
		}))
		lease := take(t, l, "user/a")
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
		wantErr(t, "the lease of before", old.Check(), locks.ErrLost)
	})
}

// A second try without an answer leaves the answer of the first one.
func TestSecondTryThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		f := newFaulty(amended{service, func(call int, key string, r driver.Result) driver.Result {
			if call == 1 && key == "user/lost" {
				return driver.Result{Err: errNet}
			}
			return r
		}})
		l, other := start(t, f, locks.Options{}), start(t, service, locks.Options{})
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			if f.count("acquire") == 2 {
				return errNet
			}
			return do()
		}))
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/lost"})
		if err != nil || attempts[0].Lease == nil {
			t.Fatalf("%+v, %v; want user/a", attempts, err)
		}
		wantErr(t, "the lost one", attempts[1].Err, locks.ErrUnknown)
		synctest.Wait()
		take(t, other, "user/lost")
		wantBusy(t, other, "user/a")
	})
}

// second is a world in which the answers of a batch's first and second call are rewritten, and things happen in between.
type second struct {
	t      *testing.T
	other  *locks.Locker
	theirs *locks.Lease // of user/a, from the start
	mine   locks.Token  // of user/a, as the first call granted it
}

// The answer of a second try for one key leaves the outcomes of the others.
func TestSecondTry(t *testing.T) {
	const a, lost = "user/a", "user/lost"
	for name, c := range map[string]struct {
		busy    bool                                            // another session has user/a at first
		between func(s *second)                                 // the two calls
		second  func(key string, r driver.Result) driver.Result // its answer
		want    error                                           // of user/a; nil: a lease
		later   func(t *testing.T, s *second, attempts []locks.Attempt)
	}{
		"both granted": {
			later: func(t *testing.T, s *second, attempts []locks.Attempt) {
				time.Sleep(time.Minute)
				for _, attempt := range attempts {
					if err := attempt.Lease.Check(); err != nil {
						t.Errorf("a minute later: %v", err)
					}
				}
			},
		},
		"granted, and then no answer": {
			second: func(key string, r driver.Result) driver.Result {
				if key == a {
					return driver.Result{Err: errNet}
				}
				return r
			},
		},
		"busy, and then granted without an answer": {
			busy: true,
			between: func(s *second) {
				if err := s.theirs.Release(s.t.Context()); err != nil {
					s.t.Error(err)
				}
			},
			second: func(key string, r driver.Result) driver.Result {
				if key == a {
					return driver.Result{Err: errNet}
				}
				return r
			},
			want: locks.ErrUnknown,
			later: func(t *testing.T, s *second, _ []locks.Attempt) {
				synctest.Wait() // it is given back
				take(t, s.other, a)
			},
		},
		"granted, and then taken away": {
			between: func(s *second) {
				if ok, err := s.other.ForceRelease(s.t.Context(), a, s.mine); !ok || err != nil {
					s.t.Errorf("force release: %v, %v", ok, err)
				}
				s.theirs = take(s.t, s.other, a)
			},
			want: locks.ErrBusy,
			later: func(t *testing.T, s *second, _ []locks.Attempt) {
				time.Sleep(time.Minute)
				if err := s.theirs.Check(); err != nil {
					t.Errorf("the next holder: %v", err)
				}
			},
		},
		"busy twice": {busy: true, want: locks.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				s := &second{t: t, other: start(t, service, locks.Options{})}
				l := start(t, amended{service, func(call int, key string, r driver.Result) driver.Result {
					switch {
					case call == 1 && key == a:
						s.mine = r.Token
					case call == 1: // user/lost comes last
						if c.between != nil {
							c.between(s)
						}
						return driver.Result{Err: errNet}
					case call == 2 && c.second != nil:
						return c.second(key, r)
					case call > 2 && key == a && c.want != locks.ErrUnknown:
						t.Error("user/a is asked for again, of which everything is known")
					}
					return r
				}}, locks.Options{})
				if c.busy {
					s.theirs = take(t, s.other, a)
				}
				attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: a}, locks.Request{Key: lost})
				if err != nil {
					t.Fatal(err)
				}
				switch got := attempts[0]; {
				case c.want == nil && (got.Lease == nil || got.Lease.Token() != s.mine):
					t.Errorf("%+v, want a lease under token %d", got, s.mine)
				case c.want != nil:
					wantErr(t, "attempt", got.Err, c.want)
				}
				if attempts[1].Lease == nil {
					t.Errorf("what was lost once: %+v", attempts[1])
				}
				if c.later != nil {
					c.later(t, s, attempts)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// What was not sent, or is refused for now, is not asked for a second time, and says nothing about the other keys.
func TestOneKeyThatIsNotGranted(t *testing.T) {
	for name, want := range map[string]struct{ err, matches error }{
		"not sent":   {driver.ErrUnreachable, locks.ErrUnavailable},
		"recovering": {driver.ErrRecovering, locks.ErrRecovering},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, m := 0, &told{n: map[string]int{}}
				l := start(t, amended{memlock.New(), func(_ int, key string, r driver.Result) driver.Result {
					if calls++; key == "user/z" {
						return driver.Result{Err: want.err}
					}
					return r
				}}, locks.Options{Observer: m})
				attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/z"})
				if err != nil || attempts[0].Lease == nil {
					t.Fatalf("%+v, %v; want user/a", attempts, err)
				}
				m.leaveOut()
				m.want(t, map[string]int{"memory granted": 1, "memory unavailable": 1})
				wantErr(t, "user/z", attempts[1].Err, want.matches)
				if !strings.HasPrefix(said(attempts[1].Err), "user/z: ") {
					t.Errorf("it does not name the key: %q", said(attempts[1].Err))
				}
				time.Sleep(time.Minute)
				if calls != 2 {
					t.Errorf("asked for %d keys, want 2", calls)
				}
			})
		})
	}
}

// A service that cannot be reached is asked once in a call.
func TestUnreachableIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("acquire", func(context.Context, string, func() error) error { return driver.ErrUnreachable }))
		_, err := l.TryAcquire(t.Context(), key)
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		if want := "locks: acquire: lock service unavailable: lock service unreachable"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if n := f.count("acquire"); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

// An error of a call at its deadline names the cause: the caller, or the call timeout.
func TestWhyACallEnded(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration // of the caller
		fails   error
		want    error
		text    string
	}{
		{"the call timeout, unknown", time.Minute, errNet, locks.ErrUnknown, "no answer within 2s"},
		{"the call timeout, not sent", time.Minute, driver.ErrUnreachable, locks.ErrUnavailable, "no answer within 2s"},
		{"the caller, unknown", time.Second, errNet, locks.ErrUnknown, "deadline exceeded"},
		{"the caller, not sent", time.Second, driver.ErrUnreachable, context.DeadlineExceeded, "unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, _, _ := pair(t)
				f.on(only("acquire", func(ctx context.Context, _ string, _ func() error) error {
					<-ctx.Done()
					return c.fails
				}))
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				attempts, err := l.TryAcquire(ctx, key)
				if err == nil {
					err = attempts[0].Err
				}
				wantErr(t, "acquire", err, c.want)
				if !errors.Is(err, c.fails) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v, want it to say %q and what the driver said", err, c.text)
				}
				f.on(nil)
			})
		})
	}
}

// The holder is named by its owner, else by its session.
func TestBusyNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, holder := range map[string]driver.Info{
			"held by them":               {Owner: "them", Session: "17"},
			"held by session 17":         {Session: "17"},
			"held by an unknown session": {},
		} {
			l := start(t, amended{memlock.New(), func(int, string, driver.Result) driver.Result {
				return driver.Result{Holder: &holder}
			}}, locks.Options{})
			if err := try(t, l, key).Err; err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}

// What is not known about one key of a batch is settled at once.
func TestOneUnknownKeyIsFreedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		var asked atomic.Int32
		l, other := start(t, amended{service, func(_ int, key string, r driver.Result) driver.Result {
			if key == "user/lost" && asked.Add(1) <= 2 {
				return driver.Result{Err: errNet}
			}
			return r
		}}, locks.Options{}), start(t, service, locks.Options{})
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/lost"}, locks.Request{Key: "user/a"})
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "the lost one", attempts[0].Err, locks.ErrUnknown)
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("state %+v, want up: the service answered", st)
		}
		synctest.Wait()
		take(t, other, "user/lost")
		wantBusy(t, other, "user/a")
	})
}
