package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// told counts the calls of Metrics.
type told struct {
	mu    sync.Mutex
	n     map[string]int
	fails error // of the last renewal that failed
}

func (m *told) add(n int, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 {
		m.n[what] += n
	}
}

func (m *told) Asked(backend string, a locks.Asked) {
	m.add(a.Granted, backend+" granted")
	m.add(a.Busy, backend+" busy")
	m.add(a.Unknown, backend+" unknown")
	m.add(a.Unavailable, backend+" unavailable")
	if a.Took != 0 {
		m.add(1, fmt.Sprint("took ", a.Took))
	}
}

func (m *told) Renewed(backend string, _ time.Duration, err error) {
	if err != nil {
		m.mu.Lock()
		m.fails = err
		m.mu.Unlock()
	}
	switch {
	case errors.Is(err, locks.ErrLost):
		m.add(1, backend+" renewal too late")
	case err != nil:
		m.add(1, backend+" renewal failed")
	default:
		m.add(1, backend+" renewed")
	}
}

func (m *told) Lost(backend string, keys int, cause error) {
	if errors.Is(cause, locks.ErrForced) {
		m.add(keys, backend+" forced")
		return
	}
	m.add(keys, backend+" lost")
}

func (m *told) want(t *testing.T, want map[string]int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if diff := cmp.Diff(want, m.n); diff != "" {
		t.Error(diff)
	}
	m.n = map[string]int{}
}

func TestMetricsAreCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		f, m := newFaulty(service), &told{n: map[string]int{}}
		l, err := locks.New(f, locks.Options{Observer: m})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context())
		other, err := locks.New(service, locks.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(t.Context())

		take(t, other, "b")
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}, locks.Request{Key: "b"}, locks.Request{Key: "c"}); err != nil {
			t.Fatal(err)
		}
		m.want(t, map[string]int{"memory granted": 2, "memory busy": 1})
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}); err != nil {
			t.Fatal(err)
		}
		m.want(t, map[string]int{}) // it joined its own hold
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}, locks.Request{Key: "b"}); err != nil {
			t.Fatal(err)
		}
		m.want(t, map[string]int{"memory busy": 1})

		time.Sleep(10*time.Second/3 + time.Millisecond)
		m.want(t, map[string]int{"memory renewed": 1})

		f.on(func(_ context.Context, call string, _ func() error) error {
			time.Sleep(5 * time.Millisecond)
			return errors.New("reset")
		})
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "d"}); err != nil {
			t.Fatal(err)
		}
		m.want(t, map[string]int{"memory unknown": 1, "took 10ms": 1})
		f.on(func(context.Context, string, func() error) error { return driver.ErrUnreachable })
		time.Sleep(time.Second)
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "e"}); !errors.Is(err, locks.ErrUnavailable) {
			t.Fatal(err)
		}
		f.on(nil)
		m.mu.Lock()
		if m.n["memory unavailable"] != 1 || m.n["memory renewal failed"] == 0 {
			t.Error(m.n)
		}
		clear(m.n)
		m.mu.Unlock()

		time.Sleep(2 * time.Second)
		synctest.Wait()
		service.Expire(f.last.ID())
		time.Sleep(4 * time.Second)
		m.mu.Lock()
		if m.n["memory lost"] < 2 || m.n["memory renewal too late"] != 1 {
			t.Error(m.n)
		}
		if want := "lock lost: memlock: renew: " + driver.ErrSessionEnded.Error(); said(m.fails) != want {
			t.Errorf("the last renewal failed as %q, want %q", said(m.fails), want)
		}
		clear(m.n)
		m.mu.Unlock()

		lease := take(t, l, "f")
		if ok, err := other.ForceRelease(t.Context(), "f", lease.Token()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(4 * time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.n["memory forced"] != 1 {
			t.Error(m.n)
		}
	})
}

// Leases that Close releases are not counted as lost.
// A nil pointer as Metrics is not called, and nothing panics.
func TestNilMetricsAreNone(t *testing.T) {
	var none *told
	l := start(t, memlock.New(), locks.Options{Observer: none})
	take(t, l, "user/a")
}

func TestMetricsOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &told{n: map[string]int{}}
		l := start(t, memlock.New(), locks.Options{Observer: m})
		take(t, l, "a")
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.want(t, map[string]int{"memory granted": 1})
	})
}
