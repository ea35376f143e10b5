package locks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

func (s nappingSession) Renew(ctx context.Context) error {
	s.d.nap()
	return s.Session.Renew(ctx)
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
