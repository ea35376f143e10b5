package locks_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Trouble that a call meets is looked into soon.
func TestTroubleThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		time.Sleep(time.Second)
		f.on(only("acquire", func(context.Context, string, func() error) error { return driver.ErrUnreachable }))
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/b"})
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		if st := l.State(); st.Up || st.Err == nil {
			t.Errorf("state %+v, want down", st)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if st := l.State(); !st.Up || st.Err != nil {
			t.Errorf("state %+v, want up", st)
		}
	})
}

// One call a second tries an unavailable service, also while a renewal hangs.
func TestOneCallerASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/a")
		f.on(func(_ context.Context, call string, do func() error) error {
			switch call {
			case "renew": // ignores its context
				time.Sleep(time.Minute)
				return errNet
			case "acquire":
				return driver.ErrUnreachable
			}
			return do()
		})
		time.Sleep(4 * time.Second)
		before := f.count("acquire")
		for _, c := range []struct {
			after time.Duration // the one before
			tries int           // until then
		}{{0, 1}, {0, 1}, {time.Second - 1, 1}, {1, 2}, {0, 2}, {time.Second, 3}} {
			time.Sleep(c.after)
			_, err := l.TryAcquire(t.Context(), key)
			wantErr(t, "acquire", err, locks.ErrUnavailable)
			if n := f.count("acquire") - before; n != c.tries {
				t.Errorf("%d tries, want %d", n, c.tries)
			}
		}
		time.Sleep(time.Second)
		f.on(only("acquire", hangs))
		var tries sync.WaitGroup
		tries.Go(func() { try(t, l, key) })
		synctest.Wait()
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), key)
		wantErr(t, "while another one tries", err, locks.ErrUnavailable)
		if n := strings.Count(err.Error(), "unavailable"); n != 1 || time.Since(began) != 0 {
			t.Errorf("%q after %v, want the error at once, and once", err, time.Since(began))
		}
		tries.Wait()

		f.on(nil)
		time.Sleep(time.Second)
		take(t, l, "user/b") // the renewal still hangs
	})
}

// While a session is being opened, or the service recovers, calls return at once.
func TestCallsDoNotWaitForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(hangs)
		wantErr(t, "connect", l.Connect(t.Context()), locks.ErrUnavailable)
		time.Sleep(1500 * time.Millisecond) // the next try has begun a while ago
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), key)
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
		f.on(only("open", func(context.Context, string, func() error) error { return driver.ErrRecovering }))
		before := f.count("open")
		for range 500 {
			_, err := l.TryAcquire(t.Context(), key)
			if err == nil {
				t.Fatal("granted")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := f.count("open") - before; n > 20 {
			t.Errorf("%d tries to open a session in 5 s", n)
		}
	})
}
