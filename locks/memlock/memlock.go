// Package memlock is a lock service inside one process: for tests, for programs of one process, and
// as the shortest example of a driver.
package memlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Service is the lock service and a driver for it. Lockers that exclude each other share one. It
// decides expiry by the process clock, so it also works in a testing/synctest bubble; it starts no
// goroutine.
type Service struct {
	mu       sync.Mutex
	keys     map[place]*key // those that are held
	sessions map[string]*session
	token    driver.Token // the last one given out
	until    time.Time    // nothing is granted before
	stopped  bool
	now      time.Time // of the call that is served
}

// place is a key of a namespace.
type place struct{ namespace, key string }

// New makes an empty service.
func New() *Service {
	return &Service{keys: map[place]*key{}, sessions: map[string]*session{}}
}

// Valid implements driver.Driver: New has no arguments.
func (s *Service) Valid() error { return nil }

// Caps implements driver.Driver.
func (s *Service) Caps() driver.Caps {
	return driver.Caps{
		Name: "memory", FIFO: true, Shared: true, Limit: true, Notices: true, EarlyLoss: true, Volatile: true, SingleHost: true, SingleProc: true,
		Note: "Excludes only within this process.",
	}
}

// Close implements driver.Driver. It does nothing: other Lockers may share the service.
func (s *Service) Close() error { return nil }

// Open implements driver.Driver.
func (s *Service) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return nil, fmt.Errorf("memlock: open session: %w", err)
	}
	c := &session{
		service: s, id: rand.Text(), namespace: o.Namespace, owner: o.Owner, ttl: o.TTL,
		renewed: s.now, granted: make(chan driver.Grant, unread), topics: make(chan string, unreadTopics),
	}
	s.sessions[c.id] = c
	return c, nil
}

// Expire ends a session by its id, as if its ttl had passed, without notice.
func (s *Service) Expire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.sessions[id]; c != nil {
		s.drop(c)
	}
}

// Stop makes the service unreachable, until Start. Sessions still expire.
func (s *Service) Stop() { s.set(true) }

// Start ends what Stop began.
func (s *Service) Start() { s.set(false) }

// Restart loses all sessions and what they held. Until the longest forgotten lease has expired
// the service grants nothing (driver.ErrRecovering).
func (s *Service) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sessions {
		if end := c.renewed.Add(c.ttl); end.After(s.until) {
			s.until = end
		}
	}
	clear(s.keys)
	clear(s.sessions)
}

func (s *Service) set(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = stopped
}

var errStopped = errors.New("the service is stopped")

// reach begins a call, or returns why it cannot be served. With mu held, as all below.
func (s *Service) reach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if s.stopped {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, errStopped)
	}
	s.now = time.Now()
	return nil
}

// drop ends a session, frees what it holds and gives up its places.
func (s *Service) drop(c *session) {
	delete(s.sessions, c.id)
	for at, k := range s.keys {
		k.drop(func(h *holding) bool { return h.session == c })
		s.advance(at, k)
	}
}

// live reports whether the session has not ended.
func (s *Service) live(c *session) bool {
	if s.sessions[c.id] != c {
		return false
	}
	if s.now.Sub(c.renewed) >= c.ttl {
		s.drop(c)
		return false
	}
	return true
}

// at returns a key without what dead sessions have of it.
func (s *Service) at(at place) *key {
	k := s.keys[at]
	if k == nil {
		return &key{}
	}
	for k.any(func(h *holding) bool { return !s.live(h.session) }) { // it was dropped from the key
	}
	return k
}

// advance grants the key to those whose turn has come, and forgets it once it has no holder and no waiter.
func (s *Service) advance(at place, k *key) {
	for len(k.queue) > 0 && k.admits(k.queue[0].want) {
		next := k.queue[0]
		k.queue = k.queue[1:]
		if s.live(next.session) {
			s.grant(k, next)
			next.session.notify(driver.Grant{Place: driver.Place{Acquisition: next.acquisition, Key: at.key}, Token: next.token})
		}
	}
	if len(k.holders)+len(k.queue) == 0 {
		delete(s.keys, at)
	}
}

// grant makes what an acquisition has of the key a holding. The token is larger than every earlier one, also of an
// earlier process.
func (s *Service) grant(k *key, h *holding) {
	s.token = max(s.token+1, driver.Token(s.now.UnixMicro()))
	h.token, h.since = s.token, s.now
	if len(k.holders) == 0 {
		k.holders = k.alone[:0]
	}
	k.holders = append(k.holders, h)
}

// ask asks for one key.
func (s *Service) ask(c *session, acquisition string, w driver.Want, wait bool) driver.Result {
	at := place{c.namespace, w.Key}
	k := s.at(at)
	if had := k.find(c, acquisition); had != nil {
		if had.token == 0 {
			had.want.Meta = w.Meta
		}
		return k.result(had)
	}
	switch {
	case c.abandoned.Has(acquisition):
		return driver.Result{Err: driver.ErrAbandoned}
	case s.now.Before(s.until): // no key is held then
		return driver.Result{Err: driver.ErrRecovering}
	}
	h := &k.first
	if h.session != nil {
		h = new(holding)
	}
	*h = holding{session: c, acquisition: acquisition, want: w, since: s.now}
	switch {
	case len(k.queue) == 0 && k.admits(w):
		s.grant(k, h)
	case wait:
		k.queue = append(k.queue, h)
	default:
		return driver.Result{Holder: k.holders[0].info()}
	}
	s.keys[at] = k
	return k.result(h)
}

// release frees what the session holds of a key under a token.
func (s *Service) release(c *session, held driver.Held) {
	at := place{c.namespace, held.Key}
	k := s.at(at)
	k.drop(func(h *holding) bool { return h.session == c && h.token == held.Token && h.token > 0 })
	s.advance(at, k)
}

// holds reports whether the session holds a key under a token.
func (s *Service) holds(c *session, held driver.Held) bool {
	return slices.ContainsFunc(s.at(place{c.namespace, held.Key}).holders, func(h *holding) bool {
		return h.session == c && h.token == held.Token
	})
}

// list returns who has and waits for the keys of a namespace, in key order, so many keys as limit.
func (s *Service) list(namespace, prefix, after string, limit int) []driver.Info {
	var keys []place
	for at := range s.keys {
		if at.namespace == namespace && strings.HasPrefix(at.key, prefix) && at.key > after {
			keys = append(keys, at)
		}
	}
	slices.SortFunc(keys, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	var infos []driver.Info
	for _, at := range keys {
		k := s.at(at)
		for _, h := range k.holders {
			infos = append(infos, *h.info())
		}
		for i, h := range k.queue {
			info := h.info()
			info.Place = i + 1
			infos = append(infos, *info)
		}
		if len(k.holders) > 0 {
			limit--
		}
		if limit == 0 {
			break
		}
	}
	return infos
}
