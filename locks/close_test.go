package locks_test

import (
	"context"
	"errors"
	"strings"
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
