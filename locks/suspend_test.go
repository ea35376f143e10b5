package locks

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// After a suspend the clock that goes on has passed the deadline while no timer has run: Check must
// say so by itself, and everything must follow.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(memlock.New(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		attempts, err := l.TryAcquire(t.Context(), Request{Key: "user/a", Owner: "me"}, Request{Key: "user/b"})
		if err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.session.renewed = l.session.renewed.Add(-time.Hour)
		l.mu.Unlock()
		l.mu.Lock()
		joined := l.join(Request{Key: "user/a", Owner: "me"})
		l.mu.Unlock()
		if joined != nil {
			t.Error("joined a hold that cannot be trusted")
		}
		if err := attempts[0].Lease.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("check: %v, want ErrLost", err)
		}
		if attempts[1].Lease.Context().Err() == nil {
			t.Error("the other lease's context still runs")
		}
		if err := attempts[1].Lease.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
	})
}

// At the deadline no lease is trusted, whichever call comes first.
func TestAtTheDeadline(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, l *Locker, lease *Lease){
		"check": func(t *testing.T, _ *Locker, lease *Lease) {
			if err := lease.Check(); !errors.Is(err, ErrLost) {
				t.Errorf("check: %v, want ErrLost", err)
			}
		},
		"left": func(t *testing.T, _ *Locker, lease *Lease) {
			if left := lease.Left(); left != 0 {
				t.Errorf("%v are left, want 0", left)
			}
		},
		"join": func(t *testing.T, l *Locker, lease *Lease) {
			a, err := l.TryAcquire(t.Context(), Request{Key: "user/a", Owner: "me"})
			if err != nil || a[0].Lease != nil && a[0].Lease.Token() == lease.Token() {
				t.Errorf("%+v, %v; want no share of what is lost", a, err)
			}
		},
		"acquire": func(t *testing.T, l *Locker, _ *Lease) {
			a, err := l.TryAcquire(t.Context(), Request{Key: "user/b"})
			if err != nil || a[0].Lease == nil || a[0].Lease.Check() != nil {
				t.Errorf("%+v, %v; want a lease of a new session", a, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := New(memlock.New(), Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close(t.Context())
				attempts, err := l.TryAcquire(t.Context(), Request{Key: "user/a", Owner: "me"})
				if err != nil {
					t.Fatal(err)
				}
				l.mu.Lock()
				l.session.renewed = boottime.Now().Add(-l.session.window)
				l.mu.Unlock()
				look(t, l, attempts[0].Lease)
				if err := context.Cause(attempts[0].Lease.Context()); !errors.Is(err, ErrLost) || err.Error() != "lock lost: not renewed for 9.9s" {
					t.Errorf("cause %v, want ErrLost and nothing of the service", err)
				}
			})
		})
	}
}

// A session that has passed its deadline is not renewed, and a renewal that fails afterwards says nothing about the next one.
func TestRenewalAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed []string // sessions
		var fails atomic.Bool
		var l *Locker
		past := func(d time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.session.renewed = boottime.Now().Add(d - l.session.window)
		}
		l, err := New(watched{memlock.New(), func(s driver.Session) error {
			if renewed = append(renewed, s.ID()); !fails.Load() {
				return nil
			}
			past(0)
			return errors.New("reset")
		}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		const due = 10 * time.Second / 3
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := l.State().Session
		synctest.Wait() // for the timer of its renewal
		past(due)
		time.Sleep(due)
		synctest.Wait()
		if second := l.State().Session; len(renewed) != 0 || second == first || second == "" {
			t.Fatalf("renewed %v of %s, then %s", renewed, first, second)
		}
		second := l.State().Session
		fails.Store(true)
		time.Sleep(due)
		synctest.Wait()
		if st := l.State(); len(renewed) != 1 || !st.Up || st.Err != nil || st.Session == second || st.Session == "" {
			t.Errorf("renewed %v, state %+v; want a new session", renewed, st)
		}
		fails.Store(false)
	})
}

// watched reports each renewal, and makes it fail.
type watched struct {
	driver.Driver
	renews func(s driver.Session) error
}

func (d watched) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	return watchedSession{s, d}, err
}

type watchedSession struct {
	driver.Session
	d watched
}

func (s watchedSession) Renew(ctx context.Context, sample []driver.Held) (bool, error) {
	watched := s.d.renews(s)
	evicted, err := s.Session.Renew(ctx, sample)
	return evicted, errors.Join(watched, err)
}

// A suspend while a renewal is under way: its answer comes late, whatever it says.
func TestSuspendDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Locker
		l, err := New(napping{memlock.New(), sync.OnceFunc(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.session.renewed = l.session.renewed.Add(-time.Hour)
		})}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		attempts, err := l.TryAcquire(t.Context(), Request{Key: "user/a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if err := attempts[0].Lease.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("check: %v, want ErrLost", err)
		}
	})
}

type napping struct {
	driver.Driver
	nap func()
}

func (d napping) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	return nappingSession{s, d}, err
}

type nappingSession struct {
	driver.Session
	d napping
}

func (s nappingSession) Renew(ctx context.Context, sample []driver.Held) (bool, error) {
	s.d.nap()
	return s.Session.Renew(ctx, sample)
}

func TestTrusted(t *testing.T) {
	for _, c := range []struct{ ttl, margin, want time.Duration }{
		{10 * time.Second, 0, 9900 * time.Millisecond},
		{time.Second, 0, 950 * time.Millisecond},
		{time.Minute, 3 * time.Second, 56400 * time.Millisecond},
		{time.Second, time.Second, -50 * time.Millisecond},
	} {
		if got := trusted(c.ttl, c.margin); got != c.want {
			t.Errorf("ttl %v, margin %v: %v, want %v", c.ttl, c.margin, got, c.want)
		}
	}
}
