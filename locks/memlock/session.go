package memlock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/refusals"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

type session struct {
	service   *Service
	id        string
	namespace string
	owner     string
	ttl       time.Duration
	granted   chan driver.Grant
	topics    chan string // of notices

	// Guarded by the service's mu.
	renewed   time.Time
	evicted   bool          // a key was, since the last renewal
	abandoned refusals.List // acquisitions
}

func (c *session) ID() string             { return c.id }
func (c *session) TTL() time.Duration     { return c.ttl }
func (c *session) Ended() <-chan struct{} { return nil }

// call serves one call, unless the service cannot be reached.
func (c *session) call(ctx context.Context, op string, serve func(s *Service) error) error {
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	err := c.service.reach(ctx)
	if err == nil {
		err = serve(c.service)
	}
	if err != nil {
		return fmt.Errorf("memlock: %s: %w", op, err)
	}
	return nil
}

func (c *session) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	err = c.call(ctx, "renew", func(s *Service) error {
		if !s.live(c) {
			return driver.ErrSessionEnded
		}
		c.renewed = s.now
		evicted, c.evicted = c.evicted, false
		for _, h := range sample {
			evicted = evicted || !s.holds(c, h)
		}
		return nil
	})
	return evicted, err
}

func (c *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) (results []driver.Result, err error) {
	err = c.call(ctx, "acquire", func(s *Service) error {
		if !s.live(c) {
			return driver.ErrSessionEnded
		}
		results = make([]driver.Result, 0, len(wants))
		for _, w := range wants {
			results = append(results, s.ask(c, acquisition, w, false))
		}
		return nil
	})
	return results, err
}

func (c *session) Abandon(ctx context.Context, acquisition string, keys []string) error {
	return c.call(ctx, "abandon", func(s *Service) error {
		c.abandoned.Add(acquisition, c.ttl)
		for _, name := range keys {
			at := place{c.namespace, name}
			k := s.at(at)
			k.drop(func(h *holding) bool { return h.session == c && h.acquisition == acquisition })
			s.advance(at, k)
		}
		return nil
	})
}

func (c *session) Release(ctx context.Context, held []driver.Held) error {
	return c.call(ctx, "release", func(s *Service) error {
		for _, h := range held {
			s.release(c, h)
		}
		return nil
	})
}

func (c *session) Check(ctx context.Context, held []driver.Held) (still []bool, err error) {
	err = c.call(ctx, "check", func(s *Service) error {
		for _, h := range held {
			still = append(still, s.holds(c, h))
		}
		return nil
	})
	return still, err
}

func (c *session) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	err = c.call(ctx, "list", func(s *Service) error {
		infos = s.list(c.namespace, prefix, after, limit)
		return nil
	})
	return infos, err
}

func (c *session) Evict(ctx context.Context, key string, token driver.Token) (freed bool, err error) {
	err = c.call(ctx, "evict", func(s *Service) error {
		at := place{c.namespace, key}
		k := s.at(at)
		freed = k.drop(func(h *holding) bool {
			evicted := h.token == token && token > 0
			if evicted {
				h.session.evicted = true
			}
			return evicted
		})
		if freed {
			s.advance(at, k)
		}
		return nil
	})
	return freed, err
}

func (c *session) Close(ctx context.Context) error {
	return c.call(ctx, "close session", func(s *Service) error {
		s.drop(c)
		return nil
	})
}
