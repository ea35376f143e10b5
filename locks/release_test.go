package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// A release that finds the session over has nothing to free, and ends the other leases with the session.
func TestReleaseFindsSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		a, b := take(t, l, "user/a"), take(t, l, "user/b")
		f.on(only("release", func(context.Context, string, func() error) error {
			service.Expire(f.last.ID())
			return driver.ErrSessionEnded
		}))
		if err := a.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		endsAfter(t, b, locks.ErrLost, 0, 0)
		if want := "lock lost: " + driver.ErrSessionEnded.Error(); said(b.Check()) != want {
			t.Errorf("it says %q, want %q", said(b.Check()), want)
		}
		if st := l.State(); st.Err != nil {
			t.Errorf("state %+v, want nothing wrong with the service", st)
		}
		take(t, l, "user/a")
	})
}

// A caller that gives up its release gets its answer at once. That says nothing about the service, and the key is freed.
func TestReleaseGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("release", func(ctx context.Context, call string, do func() error) error {
			if f.count("release") == 1 {
				return hangs(ctx, call, do)
			}
			return do()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := lease.Release(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locks.ErrUnavailable) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("release: %v after %v", err, time.Since(began))
		}
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("state %+v, want up", st)
		}
		synctest.Wait()
		take(t, other, "user/a")
	})
}

// A release under way when its session ends has nothing to free, and its failure says nothing about the service.
func TestSessionEndsDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		a, b := take(t, l, "user/a"), take(t, l, "user/b")
		f.on(func(ctx context.Context, call string, do func() error) error {
			switch call {
			case "release":
				close(f.last.lost)
				<-b.Context().Done()
				return errNet
			case "open":
				return hangs(ctx, call, do)
			}
			return do()
		})
		if err := a.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		if st := l.State(); st.Err != nil || st.Up || st.Session != "" {
			t.Errorf("state %+v, want a lost session that is being replaced", st)
		}
		f.on(nil)
	})
}

// A recovering service releases keys, and that does not end the recovery.
func TestReleaseWhileRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("acquire", func(context.Context, string, func() error) error { return driver.ErrRecovering }))
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/b"})
		wantErr(t, "acquire", err, locks.ErrRecovering)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		take(t, other, "user/a")
		if st := l.State(); st.Up || !errors.Is(st.Err, locks.ErrRecovering) {
			t.Errorf("state %+v, want recovering", st)
		}
	})
}

// A lease that was not granted is none: to release it, with others or alone, does nothing, and the Locker works on.
func TestReleaseOfNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		take(t, other, "user/busy")
		mine := take(t, l, "user/a")
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/busy"})
		if err != nil || attempts[0].Lease != nil {
			t.Fatalf("%+v, %v", attempts, err)
		}
		if err := l.Release(t.Context(), attempts[0].Lease, &locks.Lease{}, mine); err != nil {
			t.Error(err)
		}
		if err := errors.Join(attempts[0].Lease.Release(t.Context()), (&locks.Lease{}).Release(t.Context())); err != nil {
			t.Error(err)
		}
		take(t, other, "user/a")
	})
}
