package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// said is the text of an error.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is wrong with options is named, with its value and the limit.
func TestWhatIsSaidOfOptions(t *testing.T) {
	const limit = " must be 1 to 200 printable ASCII characters without blanks"
	for want, change := range map[string]func(o *locks.Options){
		"locks: ttl 999ms: must be at least 1s":                        func(o *locks.Options) { o.TTL = 999 * time.Millisecond },
		"locks: ttl -1s: must be at least 1s":                          func(o *locks.Options) { o.TTL = -time.Second },
		"locks: call timeout -3s: must be positive":                    func(o *locks.Options) { o.CallTimeout = -3 * time.Second },
		`locks: namespace "a b":` + limit:                              func(o *locks.Options) { o.Namespace = "a b" },
		`locks: namespace "` + strings.Repeat("n", 201) + `":` + limit: func(o *locks.Options) { o.Namespace = strings.Repeat("n", 201) },
		"": func(o *locks.Options) { o.Namespace = strings.Repeat("n", 200) },
	} {
		o := locks.Options{TTL: 7 * time.Second, CallTimeout: 5 * time.Second, Owner: "them"}
		change(&o)
		if _, err := locks.New(memlock.New(), o); said(err) != want {
			t.Errorf("%q, want %q", said(err), want)
		}
	}
	for want, d := range map[string]driver.Driver{"locks: New: the driver is nil": nil, "locks: no address": invalid{memlock.New()}} {
		if _, err := locks.New(d, locks.Options{}); said(err) != want {
			t.Errorf("%q, want %q", said(err), want)
		}
	}
}

// The error of an invalid request names its key.
func TestWhatIsSaidOfRequests(t *testing.T) {
	const limit = ": must be 1 to 200 printable ASCII characters without blanks, counted with user/ in front"
	l := start(t, memlock.New(), locks.Options{Owner: "one"})
	for want, r := range map[string]locks.Request{
		`key ""` + limit:         {},
		`key "user/a b"` + limit: {Key: "user/a b"},
		`key "user/"` + limit:    {Key: "user/"},
		`key "` + strings.Repeat("k", 60) + `…"` + limit + "; it has 201 bytes":      {Key: strings.Repeat("k", 196)},
		`key "sys/a": keys that start with sys/ are the scheduler's: choose another`: {Key: "sys/a"},
		`key "` + strings.Repeat("ä", 30) + `…"` + limit + "; it has 305 bytes":      {Key: strings.Repeat("ä", 150)},
		"key user/b: meta has 513 bytes, at most 512 are allowed":                    {Key: "user/b", Meta: strings.Repeat("m", 513)},
		"key user/c: asked for twice":                                                {Key: "c"},
	} {
		r.Owner = "run 1"
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/d"}, locks.Request{Key: "user/c"}, r, locks.Request{Key: "user/a"}); said(err) != "locks: acquire: "+want {
			t.Errorf("%q, want %q", said(err), want)
		}
		if r.Key == "c" {
			continue
		}
		if err := locks.Do(t.Context(), l, r, nil); said(err) != "locks: acquire: "+want {
			t.Errorf("Do: %q, want %q", said(err), want)
		}
	}
	if _, err := l.ForceRelease(t.Context(), "a b", 1); said(err) != `locks: force release: key "a b"`+limit {
		t.Errorf("%q", said(err))
	}
}

// Each outcome says what it is, of which key, and what is known of the reason.
func TestWhatIsSaidOfOutcomes(t *testing.T) {
	fails := func(call string, err error) func(context.Context, string, func() error) error {
		return only(call, func(context.Context, string, func() error) error { return err })
	}
	asks := func(t *testing.T, l *locks.Locker) error {
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a", Meta: "meta", Owner: "run 1"})
		if err != nil {
			return err
		}
		return attempts[0].Err
	}
	for want, of := range map[string]func(t *testing.T, f *faulty, l, other *locks.Locker, service *memlock.Service) error{
		"lock busy: user/a: held by two since 2000-01-01T00:00:00Z, for 10s at most without a renewal": func(t *testing.T, _ *faulty, l, other *locks.Locker, _ *memlock.Service) error {
			take(t, other, "user/a")
			return asks(t, l)
		},
		"lock outcome unknown: user/a: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.on(fails("acquire", errNet))
			return asks(t, l)
		},
		"lock outcome unknown: user/a: no answer within 2s: context deadline exceeded": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.on(only("acquire", hangs))
			return asks(t, l)
		},
		"lock outcome unknown: user/a: the session ended meanwhile": func(t *testing.T, f *faulty, _, _ *locks.Locker, service *memlock.Service) error {
			slow := start(t, f, locks.Options{CallTimeout: time.Minute})
			f.on(func(_ context.Context, call string, do func() error) error {
				if call != "open" {
					defer time.Sleep(window)
				}
				return do()
			})
			return asks(t, slow)
		},
		"locks: acquire: lock service unavailable: lock service unreachable": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.on(fails("acquire", driver.ErrUnreachable))
			return asks(t, l)
		},
		"locks: acquire: context canceled": func(t *testing.T, _ *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := l.TryAcquire(ctx, key)
			return err
		},
		"locks: acquire: lock service unavailable: the Locker is closed": func(t *testing.T, _ *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
			return asks(t, l)
		},
		"user/b: lock service unavailable: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			mine := locks.Request{Key: "user/a", Owner: "run 1"}
			try(t, l, mine)
			f.on(fails("acquire", errNet))
			try(t, l, key)
			attempts, err := l.TryAcquire(t.Context(), mine, locks.Request{Key: "user/b"})
			if err != nil {
				t.Fatal(err)
			}
			return attempts[1].Err
		},
		"lock lost: not renewed for 9.9s: renew: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			f.on(fails("renew", errNet))
			time.Sleep(window)
			return lease.Check()
		},
		"lock released by force: user/a": func(t *testing.T, _ *faulty, l, other *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			if ok, err := other.ForceRelease(t.Context(), "user/a", lease.Token()); !ok || err != nil {
				t.Error(ok, err)
			}
			<-lease.Context().Done()
			return lease.Check()
		},
		"locks: release user/a: lock lost: lock released by force: user/a": func(t *testing.T, _ *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			if ok, err := l.ForceRelease(t.Context(), "user/a", lease.Token()); !ok || err != nil {
				t.Error(ok, err)
			}
			return lease.Release(t.Context())
		},
		"locks: release user/a: a lease of another Locker": func(t *testing.T, _ *faulty, l, other *locks.Locker, _ *memlock.Service) error {
			return l.Release(t.Context(), take(t, other, "user/a"))
		},
		"locks: release: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			f.on(fails("release", errNet))
			return lease.Release(t.Context())
		},
		"locks: force release user/a: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.on(fails("evict", errNet))
			_, err := l.ForceRelease(t.Context(), "user/a", 1)
			return err
		},
		"locks: inspect: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) (last error) {
			f.on(fails("list", errNet))
			for _, err := range l.Inspect(t.Context(), "user/") {
				last = err
			}
			return last
		},
		"locks: close session: lock service unavailable: connection reset by peer\nlocks: close driver: the driver does not end": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			take(t, l, "user/a")
			f.on(fails("close", errNet))
			f.ends = errors.New("the driver does not end")
			return l.Close(t.Context())
		},
		"locks: lock service unavailable: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.on(fails("open", errNet))
			return l.Connect(t.Context())
		},
		"locks: lock service unavailable: the service agreed to a ttl of 10s, which is too short to be trusted": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			f.caps = &driver.Caps{TrustMargin: 10 * time.Second}
			return l.Connect(t.Context())
		},
		"lock lost: acquire: " + driver.ErrSessionEnded.Error(): func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			f.on(fails("acquire", fmt.Errorf("acquire: %w", driver.ErrSessionEnded)))
			_, _ = l.TryAcquire(t.Context(), locks.Request{Key: "user/b"})
			return lease.Check()
		},
		"the work failed\nlocks: release user/a: lock lost: not renewed for 9.9s: renew: connection reset by peer": func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			return locks.Do(t.Context(), l, key, func(ctx context.Context, _ locks.Token) error {
				f.on(fails("renew", errNet))
				<-ctx.Done()
				return errors.New("the work failed")
			})
		},
		"lock lost: " + driver.ErrSessionEnded.Error(): func(t *testing.T, f *faulty, l, _ *locks.Locker, _ *memlock.Service) error {
			lease := take(t, l, "user/a")
			close(f.last.lost)
			<-lease.Context().Done()
			return context.Cause(lease.Context())
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, service := pair(t)
				if got := said(of(t, f, l, other, service)); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				f.on(nil)
			})
		})
	}
}
