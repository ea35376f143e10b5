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

// window is how long a renewal is trusted with the default ttl.
const window = 9900 * time.Millisecond

// A service that stops answering: the lease ends at its deadline, before another session can get the key.
func TestDeadline(t *testing.T) {
	for name, during := range map[string]func(context.Context, string, func() error) error{
		"hangs":            hangs,
		"refuses":          func(context.Context, string, func() error) error { return errNet },
		"ignores contexts": func(context.Context, string, func() error) error { time.Sleep(time.Minute); return errNet },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				lease := take(t, l, "user/a")
				time.Sleep(61 * time.Second) // it was renewed a second ago, and many times before
				f.on(during)
				began := time.Now()
				if left := time.Until(lease.Deadline()); (left - window + time.Second).Abs() > 50*time.Millisecond {
					t.Errorf("deadline in %v, want %v", left, window-time.Second)
				}
				endsAfter(t, lease, locks.ErrLost, window-time.Second, 50*time.Millisecond)
				if !errors.Is(lease.Check(), errNet) && name == "refuses" {
					t.Errorf("check: %v, want it to say why", lease.Check())
				}
				wantBusy(t, other, "user/a") // the service goes by its own clock
				time.Sleep(9*time.Second - time.Since(began))
				take(t, other, "user/a")
				f.on(nil)
				time.Sleep(time.Minute)
				wantErr(t, "a minute later", lease.Check(), locks.ErrLost)
			})
		})
	}
}

// The deadline counts from before a renewal was sent, so slow answers cost trust, not the lease.
func TestSlowRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		var answered time.Time // when the last one that was answered was sent
		f.on(only("renew", func(_ context.Context, _ string, do func() error) error {
			sent := time.Now()
			time.Sleep(1500 * time.Millisecond)
			answered = sent
			return do()
		}))
		time.Sleep(2 * time.Minute)
		if err := lease.Check(); err != nil {
			t.Fatal(err)
		}
		// From now on the service gets each renewal, but the answers are lost.
		f.on(only("renew", func(_ context.Context, _ string, do func() error) error { _ = do(); return errNet }))
		<-lease.Context().Done()
		if ahead := time.Since(answered); ahead > window || ahead < window-50*time.Millisecond {
			t.Errorf("trusted for %v after the last answered renewal was sent, want %v", ahead, window)
		}
	})
}

// The time that it takes to open the session is not trusted either.
func TestSlowOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(func(_ context.Context, call string, do func() error) error {
			switch err := do(); call {
			case "renew":
				return errNet
			case "open":
				time.Sleep(1500 * time.Millisecond)
				return err
			default:
				return err
			}
		})
		endsAfter(t, take(t, l, "user/a"), locks.ErrLost, window-1500*time.Millisecond, 50*time.Millisecond)
	})
}

// An answer that comes after the deadline does not bring a lease back.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("renew", func(_ context.Context, _ string, do func() error) error {
			err := do() // it arrives in time
			time.Sleep(20 * time.Second)
			return err
		}))
		endsAfter(t, lease, locks.ErrLost, window, 50*time.Millisecond)
		f.on(nil)
		time.Sleep(time.Minute)
		wantErr(t, "after the answer", lease.Check(), locks.ErrLost)
		wantErr(t, "release", lease.Release(t.Context()), locks.ErrLost)
	})
}

// Trouble that ends before the deadline costs nothing.
func TestBlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, service := pair(t)
		lease := take(t, l, "user/a")
		session := l.State().Session
		for range 10 {
			time.Sleep(5 * time.Second)
			service.Stop()
			time.Sleep(6 * time.Second)
			if st := l.State(); st.Up || st.Err == nil {
				t.Errorf("state %+v, want down", st)
			}
			service.Start()
			time.Sleep(1100 * time.Millisecond)
			if st := l.State(); !st.Up || st.Err != nil || time.Since(st.Since) > 1100*time.Millisecond {
				t.Errorf("state %+v, want up since a second", st)
			}
		}
		if err := lease.Check(); err != nil || l.State().Session != session {
			t.Errorf("check: %v; session %s, want %s", err, l.State().Session, session)
		}
	})
}

// A session that the service says is over takes all its leases along at once.
func TestSessionLost(t *testing.T) {
	ends := map[string]struct {
		end    func(f *faulty, s *memlock.Service)
		within time.Duration
	}{
		"renewal says so": {func(f *faulty, s *memlock.Service) { s.Expire(f.last.ID()) }, 10 * time.Second / 3},
		"driver says so":  {func(f *faulty, _ *memlock.Service) { close(f.last.lost) }, 0},
		"driver says so while a renewal hangs": {func(f *faulty, _ *memlock.Service) {
			f.on(hangs)
			time.Sleep(3500 * time.Millisecond)
			close(f.last.lost)
		}, 0},
		"driver says so, and then a renewal": {func(f *faulty, _ *memlock.Service) {
			f.on(only("renew", func(context.Context, string, func() error) error {
				time.Sleep(time.Second)
				return driver.ErrSessionEnded
			}))
			time.Sleep(3500 * time.Millisecond)
			close(f.last.lost)
		}, 0},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, _, service := pair(t)
				a, b := take(t, l, "user/a"), take(t, l, "user/b")
				before := l.State().Session
				c.end(f, service)
				endsAfter(t, a, locks.ErrLost, c.within, 50*time.Millisecond)
				endsAfter(t, b, locks.ErrLost, 0, 0)
				f.on(nil)
				time.Sleep(2 * time.Second)
				again := take(t, l, "user/a")
				if again.Token() <= a.Token() || l.State().Session == before {
					t.Errorf("token %d after %d, session %s after %s", again.Token(), a.Token(), l.State().Session, before)
				}
				err := a.Release(t.Context())
				wantErr(t, "release of the lost one", err, locks.ErrLost)
				if n := strings.Count(err.Error(), "lock lost"); n != 1 {
					t.Errorf("%q says %d times that it was lost", err, n)
				}
				if err := again.Check(); err != nil {
					t.Errorf("the new one: %v", err)
				}
				time.Sleep(time.Minute)
				if err := again.Check(); err != nil {
					t.Errorf("the new one, later: %v", err)
				}
			})
		})
	}
}

// An acquire that finds the session expired opens a new one: nothing was granted.
func TestAcquireFindsSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		old := take(t, l, "user/a")
		service.Expire(f.last.ID())
		again := take(t, l, "user/a")
		wantErr(t, "the old lease", old.Check(), locks.ErrLost)
		if again.Token() <= old.Token() {
			t.Errorf("token %d after %d", again.Token(), old.Token())
		}
		time.Sleep(time.Second)
		if n := f.count("close"); n != 1 {
			t.Errorf("%d sessions were closed, want the lost one", n)
		}
		if n := f.count("acquire"); n != 3 {
			t.Errorf("asked %d times, want once on the old session and once on the new one", n-1)
		}
	})
}

// A grant that comes after the session's deadline is not one.
func TestGrantAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		f := newFaulty(service)
		l := start(t, f, locks.Options{TTL: time.Second, CallTimeout: 5 * time.Second})
		other := start(t, service, locks.Options{})
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.on(func(ctx context.Context, call string, do func() error) error {
			switch call {
			case "acquire":
				err := do()
				time.Sleep(2 * time.Second)
				return err
			case "renew":
				return errNet
			}
			return do()
		})
		a := try(t, l, locks.Request{Key: "user/a"})
		if a.Lease != nil {
			t.Error("granted under a session that cannot be trusted any more")
		}
		if !errors.Is(a.Err, locks.ErrUnknown) {
			t.Errorf("%v, want ErrUnknown", a.Err)
		}
		f.on(nil)
		take(t, other, "user/a")
	})
}

// A grant that comes after the service ended the session is not one either.
func TestGrantAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		before := take(t, l, "user/before")
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			err := do()
			close(f.last.lost)
			<-before.Context().Done()
			return err
		}))
		a := try(t, l, key)
		f.on(nil)
		wantErr(t, "attempt", a.Err, locks.ErrUnknown)
		if a.Lease != nil {
			t.Error("granted under a session that is over")
		}
	})
}

// One renewal, however many keys, and nothing else: each verifies a few of them, in time all. After an eviction one check
// tells which, and once more if it had no answer.
func TestOneRenewalForAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		reqs := make([]locks.Request, 1000)
		for i := range reqs {
			reqs[i].Key = fmt.Sprintf("user/%d", i)
		}
		attempts, err := l.TryAcquire(t.Context(), reqs...)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, a := range attempts {
			if err := a.Lease.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if n := f.count("renew"); n < 17 || n > 19 {
			t.Errorf("%d renewals in a minute, want about 18", n)
		}
		if n := f.count("acquire"); n != 1 || f.count("check") != 0 {
			t.Errorf("%d acquires and %d checks, want one and none", n, f.count("check"))
		}
		sampled := map[string]bool{}
		for _, sample := range f.samples {
			for _, h := range sample {
				sampled[h.Key] = true
			}
			if len(sample) > 16 {
				t.Fatalf("a sample has %d keys", len(sample))
			}
		}
		if len(sampled) < 100 {
			t.Errorf("%d renewals have verified %d keys alone", f.count("renew"), len(sampled))
		}
		f.on(only("check", func(context.Context, string, func() error) error { return errNet }))
		evicted := attempts[500].Lease
		if ok, err := other.ForceRelease(t.Context(), evicted.Key(), evicted.Token()); err != nil || !ok {
			t.Fatal(ok, err)
		}
		time.Sleep(10 * time.Second)
		if err := evicted.Check(); err != nil {
			t.Errorf("%v before a check was answered", err)
		}
		f.on(nil)
		before := f.count("check")
		endsAfter(t, evicted, locks.ErrForced, 10*time.Second/3, 50*time.Millisecond)
		time.Sleep(time.Minute)
		if n := f.count("check"); n != before+1 {
			t.Errorf("%d checks after one was answered, want 1", n-before)
		}
		if err := attempts[501].Lease.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A ttl that leaves nothing to trust is refused, aloud.
func TestTTLTooShortToTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memlock.New())
		f.caps = &driver.Caps{TrustMargin: 950 * time.Millisecond}
		l := start(t, f, locks.Options{TTL: time.Second})
		err := l.Connect(t.Context())
		wantErr(t, "ready", err, locks.ErrUnavailable)
		time.Sleep(time.Minute)
		if n := f.count("open"); n > 70 {
			t.Errorf("%d sessions opened in a minute, want at most one a second", n)
		}
		if open, closed := f.count("open"), f.count("close"); open != closed {
			t.Errorf("%d opened, %d closed", open, closed)
		}
	})
}

// A sample has a few holds also where one key has many, each of them now and then.
func TestTheSampleOfAKeyWithManyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		for range 200 {
			if a, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a", Mode: locks.Shared}); err != nil || a[0].Lease == nil {
				t.Fatal(a, err)
			}
		}
		time.Sleep(2 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		sampled := map[locks.Token]bool{}
		for _, sample := range f.samples {
			if len(sample) > 16 {
				t.Fatalf("a sample has %d holds", len(sample))
			}
			for _, h := range sample {
				sampled[h.Token] = true
			}
		}
		if len(sampled) < 100 {
			t.Errorf("%d renewals have verified %d holds alone", len(f.samples), len(sampled))
		}
	})
}

// A session that could not be renewed is lost, whatever the service said to its renewals: that is another outcome.
func TestLostIsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("renew", func(context.Context, string, func() error) error { return driver.ErrRecovering }))
		<-lease.Context().Done()
		for _, err := range []error{context.Cause(lease.Context()), lease.Check()} {
			wantErr(t, "its end", err, locks.ErrLost)
			for _, other := range []error{locks.ErrRecovering, locks.ErrUnavailable, locks.ErrUnknown, locks.ErrBusy} {
				if errors.Is(err, other) {
					t.Errorf("%v: it matches %v, too", err, other)
				}
			}
		}
	})
}
