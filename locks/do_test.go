package locks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

var key = locks.Request{Key: "user/a"}

func TestDoExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		inside, total := 0, 0
		var last locks.Token
		var mu sync.Mutex // for the race detector: no call may ever wait for it
		var all sync.WaitGroup
		for i := range 10 {
			locker := []*locks.Locker{l, other}[i%2]
			all.Go(func() {
				for range 10 {
					err := locks.Do(t.Context(), locker, key, func(_ context.Context, token locks.Token) error {
						mu.Lock()
						inside, total = inside+1, total+1
						if inside != 1 || token <= last {
							t.Errorf("%d inside, token %d after %d", inside, token, last)
						}
						last = token
						mu.Unlock()
						time.Sleep(100 * time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if total != 100 {
			t.Errorf("%d runs, want 100", total)
		}
	})
}

func TestDoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		errWork := errors.New("work failed")
		err := locks.Do(t.Context(), l, key, func(context.Context, locks.Token) error { return errWork })
		wantErr(t, "fn's error", err, errWork)
		take(t, other, "user/a") // it was released
		service.Expire(other.State().Session)

		err = locks.Do(t.Context(), l, key, func(ctx context.Context, _ locks.Token) error {
			service.Expire(f.last.ID())
			<-ctx.Done()
			wantErr(t, "cause", context.Cause(ctx), locks.ErrLost)
			return errWork
		})
		if !errors.Is(err, errWork) || !errors.Is(err, locks.ErrLost) {
			t.Errorf("%v, want fn's error and ErrLost", err)
		}

		err = locks.Do(t.Context(), l, key, func(ctx context.Context, token locks.Token) error {
			if ok, err := other.ForceRelease(ctx, "user/a", token); !ok || err != nil {
				t.Errorf("force release: %v, %v", ok, err)
			}
			<-ctx.Done()
			wantErr(t, "cause", context.Cause(ctx), locks.ErrForced)
			return nil
		})
		if !errors.Is(err, locks.ErrForced) || !errors.Is(err, locks.ErrLost) {
			t.Errorf("%v, want ErrForced and ErrLost", err)
		}
	})
}

// A function that returns the cause of its context has said why the lease ended: the error does not say it again.
func TestDoSaysOnceWhyTheLeaseEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, service := pair(t)
		limited := key
		limited.MaxHold = time.Second
		for what, c := range map[string]struct {
			request locks.Request
			end     func()
			is      error
		}{
			"MaxHold": {limited, func() {}, locks.ErrReleased},
			"expired": {key, func() { service.Expire(f.last.ID()) }, locks.ErrLost},
		} {
			err := locks.Do(t.Context(), l, c.request, func(ctx context.Context, _ locks.Token) error {
				c.end()
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, c.is) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q, want one line", what, err)
			}
		}
	})
}

// The wait ends with ctx, and the error says what it waited for.
func TestDoInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		take(t, other, "user/a")
		take(t, l, "user/b")
		f.on(only("acquire", func(context.Context, string, func() error) error { return driver.ErrUnreachable }))
		time.AfterFunc(10*time.Second, func() { f.on(nil) }) // what stood in the way at first is not what does in the end
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		fn := func(context.Context, locks.Token) error {
			t.Error("it ran")
			return nil
		}
		err := locks.Do(ctx, l, key, fn)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want a minute", took)
		}
		wantErr(t, "what it waited for", err, locks.ErrBusy)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want it to say why it stopped", err)
		}
	})
}

// The obstacle of a wait is the last answer of the service before the wait ended, if there was one.
func TestDoInterruptedDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		withoutQueue(f)
		take(t, other, "user/a")
		for answers, want := range map[int]error{3: locks.ErrBusy, 0: locks.ErrUnknown} {
			before := f.count("acquire")
			f.on(only("acquire", func(ctx context.Context, call string, do func() error) error {
				if f.count("acquire")-before > answers {
					return hangs(ctx, call, do)
				}
				return do()
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := locks.Do(ctx, l, key, nil)
			cancel()
			wantErr(t, "what it waited for", err, want)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want it to say why it stopped", err)
			}
			f.on(nil)
			synctest.Wait() // until what is not known is abandoned
		}
	})
}

// A recovering service answers: Do waits for it, also the first call.
func TestDoWhileRecovering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.on(only("open", func(context.Context, string, func() error) error { return driver.ErrRecovering }))
		time.AfterFunc(5*time.Second, func() { f.on(nil) })
		ran := false
		err := locks.Do(t.Context(), l, key, func(context.Context, locks.Token) error { ran = true; return nil })
		if err != nil || !ran {
			t.Errorf("%v, ran: %v", err, ran)
		}
	})
}

// However long a key is waited for without a queue, it is asked for often enough to be had soon after it is free, and no more often.
func TestDoAsksOftenEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		withoutQueue(f)
		theirs := take(t, other, "user/a")
		const held = 10 * time.Minute
		var free time.Time
		time.AfterFunc(held, func() {
			free = time.Now()
			if err := theirs.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
		err := locks.Do(t.Context(), l, key, func(context.Context, locks.Token) error { return nil })
		if after := time.Since(free); err != nil || after >= 375*time.Millisecond {
			t.Errorf("had %v after it was free: %v", after, err)
		}
		if n := f.count("acquire"); n < int(held/(375*time.Millisecond)) || n > int(held/(125*time.Millisecond))+20 {
			t.Errorf("asked for %d times in %v, want one to four times in half a second", n, held)
		}
	})
}

// A wait ends with the Locker.
func TestDoWhenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		take(t, other, "user/a")
		time.AfterFunc(time.Minute, func() { _ = l.Close(context.Background()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		wantErr(t, "do", locks.Do(ctx, l, key, nil), locks.ErrUnavailable)
		if ctx.Err() != nil {
			t.Error("it went on waiting")
		}
	})
}

// fn does not fail only because its lock could not be released; and a done ctx does not
// keep the lock.
func TestDoReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		f.on(only("release", func(ctx context.Context, _ string, do func() error) error {
			if _, limited := ctx.Deadline(); !limited || ctx.Err() != nil {
				t.Errorf("released with a context that has a limit: %v, and is done: %v", limited, ctx.Err())
			}
			return do()
		}))
		err := locks.Do(ctx, l, key, func(ctx context.Context, _ locks.Token) error {
			cancel()
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Errorf("%v, want nil: fn said so", err)
		}
		err = locks.Do(t.Context(), other, key, func(context.Context, locks.Token) error { return nil })
		if err != nil {
			t.Error(err)
		}

		err = locks.Do(t.Context(), l, key, func(context.Context, locks.Token) error {
			f.on(only("release", func(context.Context, string, func() error) error { return errNet }))
			return nil
		})
		if err != nil {
			t.Errorf("%v, want nil: the work was done under the lock", err)
		}
		f.on(nil)

		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = locks.Do(t.Context(), l, key, func(context.Context, locks.Token) error { panic("at the disco") })
		}()
		take(t, other, "user/a")
	})
}

// Do waits out an outage, and does not wait for a service that was never there.
func TestDoWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		service.Stop()
		l := start(t, service, locks.Options{})
		ran := 0
		fn := func(context.Context, locks.Token) error { ran++; return nil }
		wantErr(t, "never there", locks.Do(t.Context(), l, key, fn), locks.ErrUnavailable)

		service.Start()
		time.Sleep(time.Second)
		if err := locks.Do(t.Context(), l, key, fn); err != nil || ran != 1 {
			t.Errorf("%v, ran %d times, want once", err, ran)
		}
		service.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := locks.Do(ctx, l, key, fn)
		wantErr(t, "what it waited for", err, locks.ErrUnavailable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want it to say why it stopped", err)
		}
		time.AfterFunc(30*time.Second, service.Start)
		if err := locks.Do(t.Context(), l, key, fn); err != nil || ran != 2 {
			t.Errorf("%v, ran %d times, want twice", err, ran)
		}
		service.Restart() // nothing was held, and the session is forgotten
		if err := locks.Do(t.Context(), l, key, fn); err != nil || ran != 3 {
			t.Errorf("%v, ran %d times, want three times", err, ran)
		}
	})
}
