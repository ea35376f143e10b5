package sqllock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// claim is what an acquisition of a session has of a key. Guarded by the session's mu, but sent and unsure: they are of the one call, or wait, that
// asks for the key, and Abandon reads unsure when that has ended.
//
//	asking ──▶ waiting ──▶ held ──▶ (gone): released, lost, abandoned, or its session has ended
//	   └──────────────────▶ held
type claim struct {
	driver.Place
	meta   string
	wrote  string             // the meta of the request that is at the server, or of the hold
	cancel context.CancelFunc // ends what waits
	done   chan struct{}      // closed when nothing asks or waits any more
	waits  bool
	sent   bool         // a request for the row lock
	unsure bool         // its answer was lost: the key may have been held, or be held, on a connection that is gone
	token  driver.Token // 0: it is not held
	conn   pinned       // of the transaction that holds the key
}

// begin returns a new claim of an acquisition on a key, for which the caller asks, or what is there, once nobody asks for it.
func (s *rowSession) begin(ctx context.Context, acquisition string, w driver.Want) (c *claim, there driver.Result, err error) {
	place := driver.Place{Acquisition: acquisition, Key: w.Key}
	for {
		s.mu.Lock()
		old := s.claims[place]
		switch {
		case s.over:
			s.mu.Unlock()
			return nil, there, driver.ErrSessionEnded
		case old != nil:
		case s.abandoned.Has(acquisition):
			s.mu.Unlock()
			return nil, there, driver.ErrAbandoned
		default:
			c = &claim{Place: place, meta: w.Meta, cancel: func() {}, done: make(chan struct{})}
			s.claims[place] = c
			s.mu.Unlock()
			return c, there, nil
		}
		there = driver.Result{Token: old.token, Queued: old.waits}
		if old.token == 0 {
			old.meta = w.Meta
		}
		s.mu.Unlock()
		switch {
		case there.Queued:
			return nil, there, nil
		case there.Token == 0:
			select {
			case <-old.done:
			case <-ctx.Done():
				return nil, there, ctx.Err()
			}
		default:
			gone, err := old.conn.ask(ctx)
			if !gone {
				return nil, there, err
			}
			s.lose(old)
		}
	}
}

// giveUp forgets a claim that was not granted.
func (s *rowSession) giveUp(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
	close(c.done)
}

// drop forgets a claim. With mu held.
func (s *rowSession) drop(c *claim) {
	if s.claims[c.Place] == c {
		delete(s.claims, c.Place)
	}
	if s.held[c.Key] == c {
		delete(s.held, c.Key)
	}
}

// hold makes a claim one that is held, unless it was abandoned. If it was asked for again after the request was sent, its hold
// gets the meta of the last one. The caller drops the connection after an error, which is not ErrSessionEnded: the server keeps the key
// until it sees that.
func (s *rowSession) hold(ctx context.Context, c *claim, conn pinned, token driver.Token) error {
	s.mu.Lock()
	for c.wrote != c.meta {
		meta := c.meta
		s.mu.Unlock()
		if err := s.describe(ctx, conn, token, meta); err != nil {
			return err
		}
		s.mu.Lock()
		c.wrote = meta
	}
	old := s.held[c.Key] // an earlier hold of the key was lost, or it would not be free
	switch {
	case s.over:
		s.mu.Unlock()
		return fmt.Errorf("%s was granted when the session had ended", c.Key)
	case s.claims[c.Place] != c:
		s.mu.Unlock()
		return driver.ErrAbandoned
	case old != nil:
		s.drop(old)
		s.evicted = true
	}
	c.conn, c.token, c.waits = conn, token, false
	s.held[c.Key], s.idle[c.Key] = c, time.Now()
	close(c.done)
	s.mu.Unlock()
	if old != nil {
		old.conn.drop()
	}
	return nil
}

// has reports whether the connection that holds a key under its token is still open: only then can the key be held, whatever
// the server says until it has noticed.
func (s *rowSession) has(h driver.Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.held[h.Key]
	return c != nil && c.token == h.Token
}

func (s *rowSession) snapshot() []*claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make([]*claim, 0, len(s.held))
	for _, c := range s.held {
		held = append(held, c)
	}
	return held
}

// takeOut takes those of the held claims out that are asked for.
func (s *rowSession) takeOut(asked func(c *claim) bool) (out []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range s.held {
		if asked(c) {
			out = append(out, c)
		}
	}
	for _, c := range out {
		s.drop(c)
		s.idle[c.Key] = now
	}
	return out
}

// lose closes the connection of a held key, which frees the key if it was still held.
func (s *rowSession) lose(c *claim) {
	s.mu.Lock()
	was := s.held[c.Key] == c
	if was {
		s.drop(c)
		s.evicted = true
	}
	s.mu.Unlock()
	if was {
		c.conn.drop()
	}
}
