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

func (m *told) Waiting(backend string) { m.add(1, backend+" waiting") }
func (m *told) Waited(backend string, took time.Duration, got bool) {
	m.add(1, fmt.Sprint(backend, " waited ", took.Round(time.Millisecond), " got ", got))
}
func (m *told) Held(backend string) { m.add(1, backend+" held") }
func (m *told) Freed(backend string, held time.Duration) {
	m.add(1, fmt.Sprint(backend, " freed after ", held.Round(time.Millisecond)))
}

// leaveOut removes what is about holds and waits, which have a test of their own.
func (m *told) leaveOut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for what := range m.n {
		if strings.Contains(what, " held") || strings.Contains(what, " freed ") {
			delete(m.n, what)
		}
	}
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
		m.leaveOut()
		m.want(t, map[string]int{"memory granted": 2, "memory busy": 1})
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}); err != nil {
			t.Fatal(err)
		}
		m.leaveOut()
		m.want(t, map[string]int{}) // it joined its own hold
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}, locks.Request{Key: "b"}); err != nil {
			t.Fatal(err)
		}
		m.leaveOut()
		m.want(t, map[string]int{"memory busy": 1})

		time.Sleep(10*time.Second/3 + time.Millisecond)
		m.leaveOut()
		m.want(t, map[string]int{"memory renewed": 1})

		f.on(func(_ context.Context, call string, _ func() error) error {
			time.Sleep(5 * time.Millisecond)
			return errors.New("reset")
		})
		if _, err := l.TryAcquire(t.Context(), locks.Request{Key: "d"}); err != nil {
			t.Fatal(err)
		}
		m.leaveOut()
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
		m.leaveOut()
		m.want(t, map[string]int{"memory granted": 1})
	})
}

// Holds and waits are told with their durations, whatever ends them; a hold that is joined is one.
func TestMetricsOfHoldsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		m := &told{n: map[string]int{}}
		l := start(t, service, locks.Options{Observer: m})
		other := start(t, service, locks.Options{})
		told := func(want map[string]int) {
			t.Helper()
			synctest.Wait()
			m.mu.Lock()
			for what := range m.n {
				if !strings.Contains(what, "wait") && !strings.Contains(what, " held") && !strings.Contains(what, " freed ") {
					delete(m.n, what)
				}
			}
			m.mu.Unlock()
			m.want(t, want)
		}
		first := take(t, other, "a")
		done := make(chan *locks.Lease)
		go func() {
			leases, err := l.Acquire(t.Context(), locks.Request{Key: "a", Owner: "me"})
			if err != nil {
				t.Error(err)
			}
			done <- leases[0]
		}()
		told(map[string]int{"memory waiting": 1})
		time.Sleep(2 * time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease := <-done
		told(map[string]int{"memory waited 2s got true": 1, "memory held": 1})
		if joined, err := l.TryAcquire(t.Context(), locks.Request{Key: "a", Owner: "me"}); err != nil || joined[0].Lease.Release(t.Context()) != nil {
			t.Fatal(joined, err)
		}
		told(map[string]int{})
		time.Sleep(3 * time.Second)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		told(map[string]int{"memory freed after 3s": 1})

		first = take(t, other, "a")
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(brief, locks.Request{Key: "a"}, locks.Request{Key: "b"}); !errors.Is(err, locks.ErrBusy) {
			t.Fatal(err)
		}
		told(map[string]int{"memory waiting": 2, "memory waited 1s got false": 2})
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}

		forced := take(t, l, "a")
		take(t, l, "b")
		time.Sleep(time.Second)
		if ok, err := l.ForceRelease(t.Context(), "a", forced.Token()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		told(map[string]int{"memory held": 2, "memory freed after 1s": 1})
		time.Sleep(time.Second)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		told(map[string]int{"memory freed after 2s": 1})
	})
}
