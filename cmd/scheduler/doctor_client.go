package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// trialClient is a client of a proof: a session with connections of its own.
type trialClient struct {
	driver.Session
	caps    driver.Caps
	queue   driver.Queue
	link    *link // of ZooKeeper, whose client renews by itself
	parts   parts // with its connections
	stop    context.CancelFunc
	renewed sync.WaitGroup
}

// openTrialClient opens a client on the lock service that c names.
func openTrialClient(ctx context.Context, c *config.Config, namespace string) (_ *trialClient, err error) {
	t := &trialClient{stop: func() {}}
	defer func() {
		if err != nil {
			t.close(context.WithoutCancel(ctx))
		}
	}()
	through := *c
	if c.Lock.Driver == config.ZooKeeper {
		through.Lock.ZooKeeper.SessionTimeout = ttlOfProof(c.Lock.TTL)
		if t.link, err = openLink(ctx, &through); err != nil {
			return nil, err
		}
	}
	drv, err := t.parts.newDriver(ctx, &through)
	if err != nil {
		return nil, err
	}
	t.parts.closers = append(t.parts.closers, func(context.Context) error { return drv.Close() })
	host, _ := os.Hostname()
	t.Session, err = drv.Open(ctx, driver.Open{Namespace: namespace, TTL: ttlOfProof(c.Lock.TTL), Owner: fmt.Sprintf("%s/%d", host, os.Getpid())})
	if err != nil {
		t.Session = nil
		return nil, err
	}
	t.caps, t.queue = drv.Caps(), t.Queue()
	return t, nil
}

// renew renews the session, each quarter of its ttl:
//
//  1. wait, or return at close
//  2. renew it
func (t *trialClient) renew(ctx context.Context) {
	ctx, t.stop = context.WithCancel(ctx)
	t.renewed.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(t.TTL() / 4):
				_, _ = t.Renew(ctx, nil) // a session that has ended says so at its next call
			}
		}
	})
}

// cut cuts the client off, if it would renew its session by itself.
func (t *trialClient) cut() {
	if t.link != nil {
		t.link.cut()
	}
}

func (t *trialClient) isCut() bool { return t.link != nil }

func (t *trialClient) close(ctx context.Context) {
	t.stop()
	t.renewed.Wait()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if t.Session != nil {
		_ = t.Session.Close(ctx) // else it expires
	}
	if t.link != nil {
		t.link.close()
	}
	_ = t.parts.close(ctx)
}
