package lockstest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// clientSession is one session of a client, with the earliest time of its end.
type clientSession struct {
	driver.Session
	number int

	mu    sync.Mutex
	until int64 // of the history; the end of what was acknowledged last
	ended int64 // when its end was begun; 0: it was not
	over  int64 // when nothing of it is at the service any more; 0: not yet
}

// renewed notes that a renewal sent at a moment was acknowledged.
func (t *clientSession) renewed(asked int64) {
	// A server may count in whole milliseconds, and its clock may run a little faster.
	reach := asked + (t.TTL() - t.TTL()/100 - 2*time.Millisecond).Nanoseconds()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = max(t.until, reach)
}

func (t *clientSession) ending(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == 0 {
		t.ended = now
	}
}

func (t *clientSession) earliestEnd() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != 0 {
		return min(t.ended, t.until)
	}
	return t.until
}

// begin opens a session and keeps it renewed.
func (c *contender) begin() bool {
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		asked := c.h.now()
		ctx, cancel := context.WithTimeout(c.t.Context(), callTimeout)
		s, err := c.driver.Open(ctx, driver.Open{Namespace: c.namespace, TTL: c.ttl, Owner: "contender"})
		cancel()
		if err != nil {
			continue
		}
		opened := &clientSession{Session: s, number: c.h.stream()}
		opened.renewed(asked)
		c.h.session(opened)
		c.settle(opened)
		c.stop = c.keep(opened)
		return true
	}
	c.t.Error("no session within 30 s")
	return false
}

// keep renews the session and notes what was acknowledged.
func (c *contender) keep(t *clientSession) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	base := ctx
	if c.KeysDieAlone {
		base = context.Background() // a renewal that is given up would free keys at once
	}
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(t.TTL() / 5):
			}
			asked := c.h.now()
			calling, done := context.WithTimeout(base, t.TTL())
			c.renewing.Lock()
			if Renew(calling, t) == nil && c.confirmed(calling, t) {
				t.renewed(asked)
			} else {
				c.doubt(t, asked)
			}
			c.renewing.Unlock()
			done()
		}
	})
	return func() { cancel(); renewing.Wait() }
}

// confirmed reports whether the session holds after a renewal all keys of the client, if keys may be lost
// alone.
func (c *contender) confirmed(ctx context.Context, t *clientSession) bool {
	if !c.KeysDieAlone {
		return true
	}
	c.mu.Lock()
	keys := slices.Sorted(maps.Keys(c.held))
	held := make([]driver.Held, len(keys))
	for i, key := range keys {
		held[i] = driver.Held{Key: name(key), Token: c.held[key]}
	}
	c.mu.Unlock()
	still, err := t.Check(ctx, held)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		if err != nil || !still[i] && c.held[key] == held[i].Token { // and not released meanwhile
			return false
		}
	}
	return true
}

// doubt notes that the service has not confirmed all that the client holds, when it was asked at a moment. If keys may be lost alone,
// one may have been free since: the connection of a call that is given up is closed. The client continues with another session.
func (c *contender) doubt(t *clientSession, asked int64) {
	if !c.KeysDieAlone {
		return
	}
	t.ending(asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shaken = true
}

// close closes the session. After an error it expires.
func (c *contender) close() error {
	c.stop()
	c.clientSession.ending(c.h.now())
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := c.clientSession.Close(ctx)
	over := c.h.now()
	if err != nil {
		over += (c.clientSession.TTL() + late).Nanoseconds()
	}
	c.clientSession.mu.Lock()
	defer c.clientSession.mu.Unlock()
	c.clientSession.over = over
	return err
}

// end closes the session: its keys become free at some time.
func (c *contender) end() {
	_ = c.close()
	for key, token := range c.held {
		c.h.holds(name(key), c.clientSession)
		c.retired = append(c.retired, staleHold{key, c.clientSession.number, token})
	}
	c.mu.Lock()
	clear(c.held)
	c.mu.Unlock()
}
