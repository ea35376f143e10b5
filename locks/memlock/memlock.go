// Package memlock is a lock service inside one process: for tests, for programs of one process, and
// as the shortest example of a driver.
package memlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
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
	held     map[place]holding
	sessions map[string]*session
	token    driver.Token // the last one given out
	until    time.Time    // nothing is granted before
	stopped  bool
}

// place is a key of a namespace.
type place struct{ namespace, key string }

type holding struct {
	token       driver.Token
	session     *session
	acquisition string
	meta        string
	since       time.Time
}

// New makes an empty service.
func New() *Service {
	return &Service{held: map[place]holding{}, sessions: map[string]*session{}}
}

// Valid implements driver.Driver: New has no arguments.
func (s *Service) Valid() error { return nil }

// Caps implements driver.Driver.
func (s *Service) Caps() driver.Caps {
	return driver.Caps{
		Name: "memory", EarlyLoss: true, Volatile: true, SingleHost: true, SingleProc: true,
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
		renewed: time.Now(),
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
	clear(s.held)
	clear(s.sessions)
}

func (s *Service) set(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = stopped
}

var errStopped = errors.New("the service is stopped")

// reach returns why a call cannot be served. With mu held, as all below.
func (s *Service) reach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if s.stopped {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, errStopped)
	}
	return nil
}

// drop ends a session and frees what it holds.
func (s *Service) drop(c *session) {
	delete(s.sessions, c.id)
	maps.DeleteFunc(s.held, func(_ place, h holding) bool { return h.session == c })
}

// live reports whether the session has not ended.
func (s *Service) live(c *session) bool {
	if s.sessions[c.id] != c {
		return false
	}
	if time.Since(c.renewed) >= c.ttl {
		s.drop(c)
		return false
	}
	return true
}

// holder returns the holder of a key, if there is one.
func (s *Service) holder(at place) (holding, bool) {
	h, ok := s.held[at]
	return h, ok && s.live(h.session)
}

// holds reports whether the session holds a key under a token.
func (s *Service) holds(c *session, held driver.Held) bool {
	h, ok := s.holder(place{c.namespace, held.Key})
	return ok && h.session == c && h.token == held.Token
}

// try takes one key if it is free.
func (s *Service) try(c *session, acquisition string, w driver.Want) driver.Result {
	at := place{c.namespace, w.Key}
	h, held := s.holder(at)
	switch {
	case time.Now().Before(s.until): // no key is held then
		return driver.Result{Err: driver.ErrRecovering}
	case !held:
		h = holding{token: s.mint(), session: c, acquisition: acquisition, meta: w.Meta, since: time.Now()}
		s.held[at] = h
	case h.session != c || h.acquisition != acquisition:
		info := h.info(w.Key)
		return driver.Result{Holder: &info}
	}
	return driver.Result{Token: h.token}
}

// mint returns a token larger than every earlier one, also of an earlier process.
func (s *Service) mint() driver.Token {
	s.token = max(s.token+1, driver.Token(time.Now().UnixMicro()))
	return s.token
}

// list returns the holders of a namespace whose keys satisfy want, in key order, at most limit.
func (s *Service) list(namespace, prefix, after string, limit int) []driver.Info {
	var infos []driver.Info
	for at, h := range s.held {
		if at.namespace == namespace && strings.HasPrefix(at.key, prefix) && at.key > after && s.live(h.session) {
			infos = append(infos, h.info(at.key))
		}
	}
	slices.SortFunc(infos, func(a, b driver.Info) int { return cmp.Compare(a.Key, b.Key) })
	return infos[:min(limit, len(infos))]
}

func (h holding) info(key string) driver.Info {
	return driver.Info{
		Key: key, Token: h.token, Session: h.session.id, Owner: h.session.owner, Meta: h.meta, Since: h.since,
	}
}
