package memlock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

type session struct {
	service   *Service
	id        string
	namespace string
	owner     string
	ttl       time.Duration
	renewed   time.Time // guarded by the service's mu
}

func (c *session) ID() string             { return c.id }
func (c *session) TTL() time.Duration     { return c.ttl }
func (c *session) Ended() <-chan struct{} { return nil }

// enter locks the service for one call of a live session; leave it with the service's mu.Unlock.
func (c *session) enter(ctx context.Context, call string) error {
	s := c.service
	s.mu.Lock()
	err := s.reach(ctx)
	if err == nil && !s.live(c) {
		err = driver.ErrSessionEnded
	}
	if err != nil {
		s.mu.Unlock()
		return fmt.Errorf("memlock: %s: %w", call, err)
	}
	return nil
}

func (c *session) Renew(ctx context.Context) error {
	if err := c.enter(ctx, "renew"); err != nil {
		return err
	}
	defer c.service.mu.Unlock()
	c.renewed = time.Now()
	return nil
}

func (c *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	if err := c.enter(ctx, "acquire"); err != nil {
		return nil, err
	}
	s := c.service
	defer s.mu.Unlock()
	space := s.spaces[c.namespace]
	if space == nil {
		space = map[string]holding{}
		s.spaces[c.namespace] = space
	}
	results := make([]driver.Result, len(wants))
	for i, w := range wants {
		h, held := s.holder(c.namespace, w.Key)
		switch {
		case time.Now().Before(s.until): // no key is held then

			results[i].Err = driver.ErrRecovering
		case !held:
			h = holding{token: s.mint(), session: c, acquisition: acquisition, meta: w.Meta, since: time.Now()}
			space[w.Key] = h
			results[i].Token = h.token
		case h.session == c && h.acquisition == acquisition:
			results[i].Token = h.token
		default:
			info := h.info(w.Key)
			results[i].Holder = &info
		}
	}
	return results, nil
}

// mine reports whether this session holds the key under the token.
func (c *session) mine(held driver.Held) bool {
	h, ok := c.service.holder(c.namespace, held.Key)
	return ok && h.session == c && h.token == held.Token
}

func (c *session) Release(ctx context.Context, held []driver.Held) error {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("memlock: release: %w", err)
	}
	for _, h := range held {
		if c.mine(h) {
			delete(s.spaces[c.namespace], h.Key)
		}
	}
	return nil
}

func (c *session) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return nil, fmt.Errorf("memlock: check: %w", err)
	}
	still := make([]bool, len(held))
	for i, h := range held {
		still[i] = c.mine(h)
	}
	return still, nil
}

func (c *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return nil, fmt.Errorf("memlock: list: %w", err)
	}
	return s.list(c.namespace, prefix, after, limit), nil
}

func (c *session) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return false, fmt.Errorf("memlock: evict: %w", err)
	}
	h, ok := s.holder(c.namespace, key)
	if !ok || h.token != token {
		return false, nil
	}
	delete(s.spaces[c.namespace], key)
	return true, nil
}

func (c *session) Close(ctx context.Context) error {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("memlock: close session: %w", err)
	}
	s.drop(c)
	return nil
}
