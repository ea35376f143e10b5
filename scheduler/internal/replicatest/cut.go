package replicatest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Cut is the way of one client to a lock service, which can be cut. It carries no news of grants: they are found by a look.
type Cut struct {
	driver.Driver
	Off atomic.Bool
}

// Open implements driver.Driver.
func (c *Cut) Open(ctx context.Context, o driver.Open) (s driver.Session, err error) {
	err = c.pass(func() error { s, err = c.Driver.Open(ctx, o); return err })
	return cutSession{s, c}, err
}

func (c *Cut) pass(call func() error) error {
	if c.Off.Load() {
		return fmt.Errorf("%w: cut off by the test", driver.ErrUnreachable)
	}
	return call()
}

type cutSession struct {
	driver.Session
	c *Cut
}

func (s cutSession) Queue() driver.Queue { return cutQueue{s.Session.Queue(), s.c} }

func (s cutSession) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	err = s.c.pass(func() error { evicted, err = s.Session.Renew(ctx, sample); return err })
	return evicted, err
}

func (s cutSession) TryAcquire(ctx context.Context, id string, wants []driver.Want) (results []driver.Result, err error) {
	err = s.c.pass(func() error { results, err = s.Session.TryAcquire(ctx, id, wants); return err })
	return results, err
}

func (s cutSession) Abandon(ctx context.Context, id string, keys []string) error {
	return s.c.pass(func() error { return s.Session.Abandon(ctx, id, keys) })
}

func (s cutSession) Release(ctx context.Context, held []driver.Held) error {
	return s.c.pass(func() error { return s.Session.Release(ctx, held) })
}

func (s cutSession) Close(ctx context.Context) error {
	return s.c.pass(func() error { return s.Session.Close(ctx) })
}

type cutQueue struct {
	driver.Queue
	c *Cut
}

func (cutQueue) Granted() <-chan driver.Grant { return nil }

func (q cutQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) (results []driver.Result, err error) {
	err = q.c.pass(func() error { results, err = q.Queue.Acquire(ctx, id, release, wants); return err })
	return results, err
}

func (q cutQueue) Look(ctx context.Context, places []driver.Place) (results []driver.Result, err error) {
	err = q.c.pass(func() error { results, err = q.Queue.Look(ctx, places); return err })
	return results, err
}
