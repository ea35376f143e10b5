package locks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestNew(t *testing.T) {
	for name, o := range map[string]locks.Options{
		"short ttl":             {TTL: 999 * time.Millisecond},
		"negative call timeout": {CallTimeout: -1},
		"blank in namespace":    {Namespace: "a b"},
		"long namespace":        {Namespace: strings.Repeat("n", 201)},
	} {
		if _, err := locks.New(memlock.New(), o); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if _, err := locks.New(nil, locks.Options{}); err == nil {
		t.Error("no driver: want an error")
	}
	f := newFaulty(memlock.New())
	l := start(t, f, locks.Options{})
	if st := l.State(); st.Up || st.Err != nil || st.Session != "" || st.Since.IsZero() {
		t.Errorf("state %+v", st)
	}
	if l.Caps().Name != "memory" {
		t.Errorf("caps %+v", l.Caps())
	}
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("close of one that was never used: %v", err)
	}
	if len(f.counts()) != 0 {
		t.Errorf("calls %v, want none", f.counts())
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		service.Stop()
		err := l.Ready(t.Context())
		wantErr(t, "ready", err, locks.ErrUnavailable)
		if !strings.Contains(err.Error(), "the service is stopped") {
			t.Errorf("%q does not name the cause", err)
		}
		service.Start()
		f.on(hangs)
		began := time.Now()
		err = l.Ready(t.Context())
		wantErr(t, "ready", err, locks.ErrUnavailable)
		if !strings.Contains(err.Error(), "no answer within 2s") || time.Since(began) > 2*time.Second {
			t.Errorf("%q after %v", err, time.Since(began))
		}
		f.on(nil)
		time.Sleep(3 * time.Second)
		for range 3 {
			if err := l.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if st := l.State(); !st.Up || st.Session == "" || st.Session != f.last.ID() {
			t.Errorf("state %+v", st)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		a, b := take(t, l, "user/a"), take(t, l, "user/b")
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		endsAfter(t, a, locks.ErrReleased, 0, 0)
		if err := b.Release(t.Context()); err != nil {
			t.Errorf("release after close: %v", err)
		}
		take(t, other, "user/a")
		take(t, other, "user/b")
		calls := f.counts()
		if calls["close"] != 1 || calls["release"] != 0 {
			t.Errorf("calls %v, want one close and no release", calls)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/c"})
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		wantErr(t, "ready", l.Ready(t.Context()), locks.ErrUnavailable)
		for _, err := range l.Inspect(t.Context(), "") {
			wantErr(t, "inspect", err, locks.ErrUnavailable)
		}
		time.Sleep(time.Minute)
		if calls["open"] != f.count("open") || calls["renew"] != f.count("renew") {
			t.Errorf("calls %v, then %v: something still runs", calls, f.counts())
		}
	})
}

// Close does not wait for a service that hangs longer than for one call, and says so. The bubble
// sees to it that no goroutine is left.
func TestCloseWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(hangs)
		time.Sleep(4 * time.Second) // a renewal is under way
		attempt := try(t, l, locks.Request{Key: "user/b"})
		wantErr(t, "attempt", attempt.Err, locks.ErrUnknown)
		began := time.Now()
		err := l.Close(t.Context())
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v, want it to say that the session could not be closed", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		endsAfter(t, lease, locks.ErrReleased, 0, 0)
		wantBusy(t, other, "user/a")
		time.Sleep(10 * time.Second)
		take(t, other, "user/a")
	})
}

// A session that a caller opens while Close runs is not left behind.
func TestCloseWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("open", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}))
		go func() {
			time.Sleep(500 * time.Millisecond)
			if err := l.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		_, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"})
		wantErr(t, "acquire", err, locks.ErrUnavailable)
		synctest.Wait()
		if opened, closed := f.count("open"), f.count("close"); opened != closed {
			t.Errorf("%d sessions opened, %d closed", opened, closed)
		}
	})
}

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		take(t, other, "sys/a")
		for _, k := range []string{"user/c", "user/a", "user/b"} {
			take(t, other, k)
		}
		var got []string
		for info, err := range l.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
			if info.Key == "user/b" {
				break
			}
		}
		if strings.Join(got, " ") != "user/a user/b" {
			t.Errorf("got %v", got)
		}
		lost := f.last
		f.on(only("list", func(_ context.Context, _ string, do func() error) error {
			if f.last == lost {
				return driver.ErrSessionLost
			}
			return do()
		}))
		for _, err := range l.Inspect(t.Context(), "user/") {
			if err != nil {
				t.Error(err)
			}
		}
		service.Stop()
		n := 0
		for _, err := range l.Inspect(t.Context(), "user/") {
			if n++; !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("%v, want it to say that the service cannot be reached", err)
			}
		}
		if n != 1 {
			t.Errorf("%d elements, want the error", n)
		}
	})
}
