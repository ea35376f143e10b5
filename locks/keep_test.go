package locks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// A session is renewed in time however little of its ttl may be trusted, from its first moment on.
func TestRenewedInTime(t *testing.T) {
	for name, c := range map[string]struct{ ttl, margin, takes time.Duration }{
		"the shortest ttl":                      {time.Second, 0, 0},
		"much is not trusted":                   {10 * time.Second, 9 * time.Second, 0},
		"much is not trusted, and answers take": {10 * time.Second, 9 * time.Second, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(memlock.New())
				f.caps = &driver.Caps{TrustMargin: c.margin}
				f.on(only("renew", func(ctx context.Context, _ string, do func() error) error {
					select {
					case <-time.After(c.takes):
						return do()
					case <-ctx.Done():
						return ctx.Err()
					}
				}))
				lease := take(t, start(t, f, locks.Options{TTL: c.ttl}), "user/a")
				time.Sleep(time.Minute)
				if err := lease.Check(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A session is renewed in time, too, if a call that was given up before it was sent is what started the Locker.
func TestRenewedInTimeThoughTheFirstCallWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, memlock.New(), locks.Options{TTL: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.TryAcquire(ctx, key); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		synctest.Wait()
		lease := take(t, l, "user/a")
		time.Sleep(time.Minute)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A session that the service has ended is replaced at once.
func TestLostSessionIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		time.Sleep(time.Second)
		close(f.last.lost)
		synctest.Wait()
		if n := f.count("open"); n != 2 || !l.State().Up {
			t.Errorf("%d sessions were opened, state %+v; want a second one", n, l.State())
		}
	})
}

// A renewal that hangs leaves time for another one.
func TestRenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		l := start(t, f, locks.Options{TTL: 2 * time.Second, CallTimeout: 5 * time.Second})
		lease := take(t, l, "user/a")
		f.on(only("renew", func(ctx context.Context, call string, do func() error) error {
			if f.count("renew")%3 == 1 {
				return hangs(ctx, call, do)
			}
			return do()
		}))
		time.Sleep(time.Minute)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A service that is away is asked less and less often, and at each outage often at first.
func TestRenewalsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		refuses := only("renew", func(context.Context, string, func() error) error { return errNet })
		for range 3 {
			began := f.count("renew")
			f.on(refuses)
			time.Sleep(10*time.Second/3 + time.Second)
			first := f.count("renew") - began
			time.Sleep(3 * time.Second)
			if all := f.count("renew") - began; first < 5 || all-first < 2 || all-first > 4 {
				t.Errorf("%d renewals about the first second, %d in three more; want a few, and about one a second", first, all-first)
			}
			f.on(nil)
			time.Sleep(1100 * time.Millisecond)
		}
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A session is renewed each third of its ttl, and where that fails ten times in it or more often.
func TestWhenASessionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		l := start(t, f, locks.Options{TTL: 3 * time.Second})
		last := time.Now()
		var after []time.Duration
		var fails atomic.Bool
		f.on(only("renew", func(_ context.Context, _ string, do func() error) error {
			after, last = append(after, time.Since(last)), time.Now()
			if fails.Load() {
				return errNet
			}
			return do()
		}))
		take(t, l, "user/a")
		time.Sleep(2500 * time.Millisecond)
		fails.Store(true)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		ms := time.Millisecond
		want := []time.Duration{time.Second, time.Second, time.Second, 50 * ms, 100 * ms, 200 * ms, 300 * ms, 300 * ms}
		if !slices.Equal(after, want) {
			t.Errorf("renewed after %v, want %v", after, want)
		}
	})
}

// A check that hangs is given up in time for the next renewal.
func TestACheckThatHangsDelaysNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.doubts = true
		lease := take(t, l, "user/a")
		f.on(only("check", hangs))
		time.Sleep(time.Minute + time.Second)
		if n := f.count("renew"); n != 18 {
			t.Errorf("%d renewals in a minute, want one each third of the ttl", n)
		}
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A check that finds the session over ends its leases at once; one that fails says nothing about them.
func TestCheckFindsSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.doubts = true
		lease := take(t, l, "user/a")
		f.on(only("check", func(context.Context, string, func() error) error { return errNet }))
		time.Sleep(time.Minute)
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
		f.on(only("check", func(context.Context, string, func() error) error { return driver.ErrSessionEnded }))
		endsAfter(t, lease, locks.ErrLost, 10*time.Second/3, 50*time.Millisecond)
	})
}

// Where nothing is held nothing is checked.
func TestNothingToCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.doubts = true
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := l.State(); !st.Up || st.Session == "" {
			t.Errorf("state %+v, want up", st)
		}
		time.Sleep(time.Minute)
		if renewed, checked := f.count("renew"), f.count("check"); renewed < 17 || checked != 0 {
			t.Errorf("%d renewals, %d checks", renewed, checked)
		}
	})
}

// A service that is away from the start is asked once by the first caller, and then by one thing at a time.
func TestFirstOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		service.Stop()
		wantErr(t, "connect", l.Connect(t.Context()), locks.ErrUnavailable)
		synctest.Wait()
		if n := f.count("open"); n != 1 {
			t.Errorf("%d tries to open a session, want 1", n)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if n := f.count("open"); n != 2 {
			t.Errorf("%d tries to open a session after the first pause, want 2", n)
		}
	})
}

// The first call opens the first session, returns its error, however slow it is, and the session is kept.
func TestSlowFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		l := start(t, f, locks.Options{TTL: time.Second})
		ctx := dawdling{t.Context(), sync.OnceFunc(func() {
			time.Sleep(10 * time.Millisecond)
			if n := f.count("open"); n != 0 {
				t.Errorf("%d sessions were opened before", n)
			}
		})}
		attempts, err := l.TryAcquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := attempts[0].Lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// dawdling is the context of a caller that is slow.
type dawdling struct {
	context.Context
	dawdle func()
}

func (c dawdling) Err() error {
	c.dawdle()
	return c.Context.Err()
}

// A service that recovers answers: its sessions are renewed as ever.
func TestRenewalsWhileRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("acquire", func(context.Context, string, func() error) error { return driver.ErrRecovering }))
		for range 60 {
			_, err := l.TryAcquire(t.Context(), key)
			wantErr(t, "acquire", err, locks.ErrRecovering)
			time.Sleep(time.Second)
		}
		if st := l.State(); st.Up || st.Session == "" {
			t.Errorf("state %+v, want a session, and recovering", st)
		}
		if n := f.count("renew"); n < 17 || n > 19 {
			t.Errorf("%d renewals in a minute, want about 18", n)
		}
	})
}

// A renewal of a session that is over says nothing about the next one.
func TestLateFailureOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("renew", func(context.Context, string, func() error) error {
			time.Sleep(12 * time.Second) // ignores its context
			return errNet
		}))
		<-lease.Context().Done()
		f.on(nil)
		take(t, l, "user/b")
		time.Sleep(10*time.Second/3 + 12*time.Second - window)
		synctest.Wait()
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("state %+v, want up", st)
		}
	})
}
