package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestInvalidRequests(t *testing.T) {
	f := newFaulty(memlock.New())
	l := start(t, f, locks.Options{})
	good := locks.Request{Key: "user/a"}
	for name, r := range map[string]locks.Request{
		"no key":     {},
		"blank":      {Key: "user/a b"},
		"newline":    {Key: "user/a\n"},
		"delete":     {Key: "user/a\x7f"},
		"not ASCII":  {Key: "user/ä"},
		"too long":   {Key: strings.Repeat("k", 196)},
		"long meta":  {Key: "user/b", Meta: strings.Repeat("m", 513)},
		"same again": good,
	} {
		if a, err := l.TryAcquire(t.Context(), good, r); err == nil || a != nil {
			t.Errorf("%s: %+v, %v, want an error", name, a, err)
		}
		if r == good {
			continue
		}
		if err := locks.Do(t.Context(), l, r, nil); err == nil {
			t.Errorf("%s: Do accepts it", name)
		}
	}
	if n := len(f.counts()); n != 0 {
		t.Errorf("the driver was called: %v", f.counts())
	}
	long := locks.Request{Key: strings.Repeat("~", 95) + strings.Repeat("!", 100), Meta: strings.Repeat("m", 512)}
	if a := try(t, l, long); a.Lease == nil {
		t.Errorf("the longest request: %v", a.Err)
	}
	if a, err := l.TryAcquire(t.Context()); err != nil || len(a) != 0 {
		t.Errorf("no request: %v, %v", a, err)
	}
}

// The driver sees sorted keys; the caller sees its own order.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		take(t, other, "user/m")
		asked := []string{"user/z", "user/m", "user/a", "user/q"}
		var reqs []locks.Request
		for _, key := range asked {
			reqs = append(reqs, locks.Request{Key: key, Meta: "meta of " + key})
		}
		attempts, err := l.TryAcquire(t.Context(), reqs...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range attempts {
			switch {
			case a.Lease != nil:
				got = append(got, a.Lease.Key())
			case a.Holder != nil:
				wantErr(t, "busy one", a.Err, locks.ErrBusy)
				got = append(got, a.Holder.Owner+" has "+a.Holder.Key)
			}
		}
		if diff := cmp.Diff([]string{"user/z", "two has user/m", "user/a", "user/q"}, got); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		var sent []string
		for _, w := range f.wants {
			sent = append(sent, w.Key+" "+w.Meta)
		}
		if diff := cmp.Diff([]string{"user/a meta of user/a", "user/m meta of user/m", "user/q meta of user/q", "user/z meta of user/z"}, sent); diff != "" {
			t.Errorf("what the driver was asked (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if n := f.count("release"); n != 0 {
			t.Errorf("%d releases, want none: what others hold is left alone", n)
		}
		var listed []string
		for info, err := range other.Inspect(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, info.Owner+" "+info.Key)
		}
		if diff := cmp.Diff([]string{"one user/a", "two user/m", "one user/q", "one user/z"}, listed); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
	})
}

// A key with a release under way is not freed as unexpected.
func TestBusyDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := take(t, l, "user/a")
		f.on(only("release", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}))
		var released sync.WaitGroup
		released.Go(func() {
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		wantBusy(t, l, "user/a")
		released.Wait()
		time.Sleep(5 * time.Second)
		if n := f.count("release"); n != 1 {
			t.Errorf("%d releases, want 1", n)
		}
	})
}

// A caller that gives up gets its answer at once, and that says nothing about the service.
func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		take(t, l, "user/kept")
		f.on(only("acquire", func(ctx context.Context, _ string, do func() error) error {
			if ctx.Err() != nil {
				t.Error("asked in a context that is done")
			}
			_ = do()
			return hangs(ctx, "", nil)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		attempts, err := l.TryAcquire(ctx, locks.Request{Key: "user/a"})
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "attempt", attempts[0].Err, locks.ErrUnknown)
		if !errors.Is(attempts[0].Err, context.DeadlineExceeded) {
			t.Errorf("%v, want it to say that the context ended", attempts[0].Err)
		}
		if st := l.State(); !st.Up {
			t.Errorf("state %+v, want up", st)
		}
		f.on(nil)
		time.Sleep(3 * time.Second) // the first try to free it may hang too
		take(t, other, "user/a")

		_, err = l.TryAcquire(ctx, locks.Request{Key: "user/a"})
		wantErr(t, "with a context that is done", err, context.DeadlineExceeded)

		f, l, _, _ = pair(t)
		f.on(hangs)
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err = l.TryAcquire(ctx, locks.Request{Key: "user/a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the session is opened: %v", err)
		}
		if st := l.State(); st.Err != nil {
			t.Errorf("state %+v, want no verdict", st)
		}
	})
}

// While the service is unavailable no call waits for it, and its return is noticed soon.
func TestAway(t *testing.T) {
	for name, during := range map[string]func(context.Context, string, func() error) error{
		"refuses": func(context.Context, string, func() error) error { return driver.ErrUnreachable },
		"hangs":   hangs,
	} {
		for _, session := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/session open %v", name, session), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, l, _, _ := pair(t)
					if session {
						take(t, l, "user/kept")
					}
					f.on(during)
					began, calls := time.Now(), 0
					var longest, total time.Duration
					for ; time.Since(began) < 30*time.Second; calls++ {
						at := time.Now()
						attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"})
						took := time.Since(at)
						longest, total = max(longest, took), total+took
						switch {
						case err == nil && name == "hangs" && session:
							wantErr(t, "attempt", attempts[0].Err, locks.ErrUnknown)
						case err == nil:
							t.Fatalf("%+v, want an error", attempts[0])
						default:
							wantErr(t, "acquire", err, locks.ErrUnavailable)
						}
						time.Sleep(10 * time.Millisecond)
					}
					if longest > 2*time.Second {
						t.Errorf("one took %v, longer than the call timeout", longest)
					}
					if total > 21*time.Second {
						t.Errorf("%d calls took %v of 30 s", calls, total)
					}
					if n := f.count("open"); !session && n > 70 {
						t.Errorf("%d opens in 30 s, want about one a second in the background, and one of callers", n)
					}
					if st := l.State(); st.Up || st.Err == nil || time.Since(st.Since) < 20*time.Second {
						t.Errorf("state %+v, want down since 30 s", st)
					}
					f.on(nil)
					time.Sleep(3100 * time.Millisecond) // one call timeout and one backoff
					if st := l.State(); !st.Up || st.Err != nil || st.Session == "" {
						t.Errorf("state %+v, want up again", st)
					}
					take(t, l, "user/a")
				})
			})
		}
	}
}

func TestRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		lease := take(t, l, "user/a")
		service.Restart()
		attempts, err := other.TryAcquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"})
		if attempts != nil {
			t.Errorf("%+v, want nothing", attempts)
		}
		wantErr(t, "acquire", err, locks.ErrRecovering)
		if st := other.State(); st.Up || !errors.Is(st.Err, locks.ErrRecovering) {
			t.Errorf("state %+v, want recovering", st)
		}
		endsAfter(t, lease, locks.ErrLost, 10*time.Second/3, 50*time.Millisecond)
		time.Sleep(7 * time.Second)
		if again := take(t, other, "user/a"); again.Token() <= lease.Token() {
			t.Errorf("token %d after %d", again.Token(), lease.Token())
		}
		if st := other.State(); !st.Up {
			t.Errorf("state %+v, want up", st)
		}

		f.on(only("open", func(context.Context, string, func() error) error { return fmt.Errorf("addr: %w", driver.ErrRecovering) }))
		service.Expire(f.last.ID())
		_, err = l.TryAcquire(t.Context(), locks.Request{Key: "user/c"})
		wantErr(t, "acquire", err, locks.ErrRecovering)
		wantErr(t, "connect", l.Connect(t.Context()), locks.ErrRecovering)
	})
}

// The first use by many at once opens one session.
func TestOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("open", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second)
			return do()
		}))
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() { take(t, l, fmt.Sprintf("user/%d", i)) })
		}
		all.Wait()
		if n := f.count("open"); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
	})
}
