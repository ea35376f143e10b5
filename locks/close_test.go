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

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// Close closes the driver, once, and passes on what that says.
func TestCloseOfTheDriver(t *testing.T) {
	f := newFaulty(memlock.New())
	f.ends = errors.New("sockets left")
	l := start(t, f, locks.Options{})
	if err := l.Close(t.Context()); !errors.Is(err, f.ends) || !strings.Contains(err.Error(), "close driver") {
		t.Errorf("close: %v, want the driver's error", err)
	}
	if err := l.Close(t.Context()); err != nil || f.closed != 1 {
		t.Errorf("second close: %v; the driver was closed %d times", err, f.closed)
	}
}

// A Locker that was closed before its first use stays as it is.
func TestUseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which sees to it that nothing runs on
		m := &told{n: map[string]int{}}
		l := start(t, memlock.New(), locks.Options{Observer: m})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := l.TryAcquire(t.Context(), key)
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		wantErr(t, "connect", l.Connect(t.Context()), locks.ErrUnavailable)
		m.want(t, map[string]int{}) // nothing was asked for
	})
}

// Close waits for what is under way.
func TestCloseJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		var running atomic.Bool
		f.on(only("renew", func(context.Context, string, func() error) error {
			running.Store(true)
			defer running.Store(false)
			time.Sleep(5 * time.Second) // ignores its context
			return errNet
		}))
		time.Sleep(4 * time.Second)
		if !running.Load() {
			t.Error("no renewal is under way")
		}
		if err := l.Close(t.Context()); err != nil || running.Load() {
			t.Errorf("%v; a renewal runs on: %v", err, running.Load())
		}
	})
}

// Close of a session that the service has ended, now or before, is no error.
func TestCloseOfALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		f.on(only("close", func(context.Context, string, func() error) error { return driver.ErrSessionEnded }))
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}

		f, l, _, _ = pair(t)
		lease := take(t, l, "user/a")
		f.on(func(_ context.Context, call string, do func() error) error {
			switch call {
			case "renew": // ignores its context, so nothing else is done about the lost session
				time.Sleep(20 * time.Second)
				return errNet
			case "close":
				return errNet
			}
			return do()
		})
		endsAfter(t, lease, locks.ErrLost, window, 0)
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// outlived is a service with two sessions of one Locker at its Close: that of ended could not be renewed and was given up here, and the
// service may still have it.
type outlived struct {
	driver.Driver
	closes func(ctx context.Context, ended bool) error // before a session is closed

	mu    sync.Mutex
	opens int
}

func (d *outlived) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opens++
	return outlivedSession{s, d, d.opens == 1}, err
}

type outlivedSession struct {
	driver.Session
	d     *outlived
	first bool
}

func (s outlivedSession) Close(ctx context.Context) error {
	if err := s.d.closes(ctx, s.first); err != nil {
		return err
	}
	return s.Session.Close(ctx)
}

// closeTwo closes a Locker that has a lease under the second session, and whose first one has ended and is not closed yet.
func closeTwo(t *testing.T, closes func(ctx context.Context, ended bool) error) (err error, other *locks.Locker) {
	t.Helper()
	service := memlock.New()
	f := newFaulty(&outlived{Driver: service, closes: closes})
	f.caps = &driver.Caps{TrustMargin: 8 * time.Second}
	l, other := start(t, f, locks.Options{TTL: 10 * time.Second}), start(t, service, locks.Options{})
	lease := take(t, l, "user/ended")
	f.on(only("renew", func(context.Context, string, func() error) error {
		time.Sleep(3 * time.Second) // ignores its context, so nothing else is done about the session
		return errNet
	}))
	<-lease.Context().Done()
	take(t, l, "user/live")
	return l.Close(t.Context()), other
}

// A session that ended before and cannot be closed takes no time from the one that is open.
func TestCloseOfTheOpenSessionDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		err, other := closeTwo(t, func(ctx context.Context, ended bool) error {
			if began := time.Now(); ended {
				<-ctx.Done()
				took = time.Since(began)
			}
			return ctx.Err()
		})
		take(t, other, "user/live")
		wantErr(t, "close", err, locks.ErrUnavailable)
		if took != 2*time.Second {
			t.Errorf("the other one was waited for for %v, want the call timeout", took)
		}
	})
}

// Close reports each session that the service may still have.
func TestCloseReportsBothSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err, _ := closeTwo(t, func(_ context.Context, ended bool) error {
			if ended {
				return errors.New("the ended one")
			}
			return errors.New("the open one")
		})
		const want = "locks: close session: lock service unavailable: the open one\n" +
			"locks: close session: lock service unavailable: the ended one"
		if said(err) != want {
			t.Errorf("%q, want %q", said(err), want)
		}
	})
}

// A session that is being closed when Close comes is closed to the end, and reported if that fails; it takes no time from the other one.
func TestCloseWaitsForAnEndedSession(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			service := memlock.New()
			var given error
			f := newFaulty(&outlived{Driver: service, closes: func(ctx context.Context, ended bool) error {
				if !ended {
					return nil
				}
				select {
				case <-ctx.Done():
					given = ctx.Err()
				case <-time.After(time.Second):
				}
				if fails {
					return errNet
				}
				return given
			}})
			f.caps = &driver.Caps{TrustMargin: 8 * time.Second}
			l := start(t, f, locks.Options{TTL: 10 * time.Second})
			lease := take(t, l, "user/ended")
			f.on(only("renew", func(context.Context, string, func() error) error { return errNet }))
			<-lease.Context().Done()
			synctest.Wait() // it is being closed
			began := time.Now()
			err := l.Close(t.Context())
			if took := time.Since(began); took != time.Second || given != nil {
				t.Errorf("%v after %v, want to wait for the second that it takes", given, took)
			}
			if fails {
				wantErr(t, "close", err, locks.ErrUnavailable)
			} else if err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// After a signal the context of a program has ended, and with that it closes its Locker: the keys are free nevertheless.
func TestCloseAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		take(t, l, "user/a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		take(t, other, "user/a")
	})
}
