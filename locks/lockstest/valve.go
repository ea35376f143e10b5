package lockstest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// valve stands between a Locker and its driver: it can be shut, as if the network was cut, and it
// shows the sessions that were opened.
type valve struct {
	driver.Driver

	mu     sync.Mutex
	shut   bool
	opened []driver.Session
}

// behindValve puts a valve before d. What was opened through it is closed when the test ends, also
// what could not be while the valve was shut.
func behindValve(t *testing.T, d driver.Driver) *valve {
	v := &valve{Driver: d}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range v.opened {
			_ = c.Close(ctx) // most are closed already
		}
	})
	return v
}

var errShut = fmt.Errorf("%w: cut off by the test", driver.ErrUnreachable)

func (v *valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
}

func (v *valve) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		return errShut
	}
	return nil
}

// last is the driver's own session that was opened last, or nil.
func (v *valve) last() driver.Session {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.opened) == 0 {
		return nil
	}
	return v.opened[len(v.opened)-1]
}

func (v *valve) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	if err := v.err(); err != nil {
		return nil, err
	}
	c, err := v.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened = append(v.opened, c)
	return valved{c, v}, nil
}

type valved struct {
	driver.Session
	v *valve
}

func (c valved) Renew(ctx context.Context) error {
	return c.pass(func() error { return c.Session.Renew(ctx) })
}

func (c valved) pass(call func() error) error {
	if err := c.v.err(); err != nil {
		return err
	}
	return call()
}

func (c valved) TryAcquire(ctx context.Context, id string, wants []driver.Want) (results []driver.Result, err error) {
	err = c.pass(func() (err error) {
		results, err = c.Session.TryAcquire(ctx, id, wants)
		return err
	})
	return results, err
}

func (c valved) Release(ctx context.Context, held []driver.Held) error {
	return c.pass(func() error { return c.Session.Release(ctx, held) })
}

func (c valved) Check(ctx context.Context, held []driver.Held) (still []bool, err error) {
	err = c.pass(func() (err error) {
		still, err = c.Session.Check(ctx, held)
		return err
	})
	return still, err
}

func (c valved) Close(ctx context.Context) error {
	return c.pass(func() error { return c.Session.Close(ctx) })
}

// locker makes a Locker that is closed when the test ends.
func (s *suite) locker(t *testing.T, d driver.Driver, ttl time.Duration, namespace, owner string) *locks.Locker {
	t.Helper()
	l, err := locks.New(d, locks.Options{TTL: ttl, Namespace: namespace, Owner: owner, CallTimeout: callTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// lease takes a key that must be free; it waits while the server is recovering or away.
func (s *suite) lease(t *testing.T, l *locks.Locker, key string) *locks.Lease {
	t.Helper()
	var got *locks.Lease
	var why error
	eventually(t, 2*s.patience()+late, "a lease of "+key, func() bool {
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: key})
		if err == nil {
			got, err = attempts[0].Lease, attempts[0].Err
		}
		if err != nil && why == nil {
			why = err
			t.Logf("not at once: %v", err)
		}
		return got != nil
	})
	return got
}

// ended waits for the end of a lease and returns its cause.
func ended(t *testing.T, l *locks.Lease, within time.Duration) error {
	t.Helper()
	select {
	case <-l.Context().Done():
		return context.Cause(l.Context())
	case <-time.After(within):
		t.Fatalf("the lease of %s did not end within %v", l.Key(), within)
		return nil
	}
}
