package locks

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
