package lockstest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// link is between a Locker and its driver: it can be shut, as if the network was disconnected, and it records
// the sessions that were opened.
type link struct {
	driver.Driver

	mu     sync.Mutex
	shut   bool
	opened []driver.Session
}

// behindLink puts a link before d. Sessions opened through it are closed when the test ends, also those that
// could not be while the link was shut.
func behindLink(t *testing.T, d driver.Driver) *link {
	v := &link{Driver: d}
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

func (v *link) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
}

func (v *link) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		return errShut
	}
	return nil
}

// last is the driver's own session that was opened last, or nil.
func (v *link) last() driver.Session {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.opened) == 0 {
		return nil
	}
	return v.opened[len(v.opened)-1]
}

func (v *link) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
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
	return linked{c, v}, nil
}

type linked struct {
	driver.Session
	v *link
}

func (c linked) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	err = c.pass(func() (err error) {
		evicted, err = c.Session.Renew(ctx, sample)
		return err
	})
	return evicted, err
}

func (c linked) pass(call func() error) error {
	if err := c.v.err(); err != nil {
		return err
	}
	return call()
}

func (c linked) TryAcquire(ctx context.Context, id string, wants []driver.Want) (results []driver.Result, err error) {
	err = c.pass(func() (err error) {
		results, err = c.Session.TryAcquire(ctx, id, wants)
		return err
	})
	return results, err
}

func (c linked) Abandon(ctx context.Context, id string, keys []string) error {
	return c.pass(func() error { return c.Session.Abandon(ctx, id, keys) })
}

func (c linked) Release(ctx context.Context, held []driver.Held) error {
	return c.pass(func() error { return c.Session.Release(ctx, held) })
}

func (c linked) Check(ctx context.Context, held []driver.Held) (still []bool, err error) {
	err = c.pass(func() (err error) {
		still, err = c.Session.Check(ctx, held)
		return err
	})
	return still, err
}

func (c linked) Close(ctx context.Context) error {
	return c.pass(func() error { return c.Session.Close(ctx) })
}
