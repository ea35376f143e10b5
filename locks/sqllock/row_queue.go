package sqllock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Queue implements driver.Session: a place is a request for the row lock, in the queue of the server. That has no order, since
// each request waits for 2 s at most (waitFor), and then begins again as the last one: so the server is not left with the requests of
// processes that have gone.
func (s *rowSession) Queue() driver.Queue { return s }

// Acquire implements driver.Queue. It asks for one key after the other.
func (s *rowSession) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	if len(release) > 0 {
		if err := s.Release(ctx, release); err != nil {
			return nil, err
		}
	}
	results := make([]driver.Result, len(wants))
	for i := range wants {
		var err error
		var sent bool
		if results[i], sent, err = s.ask(ctx, acquisition, wants[i:]); errors.Is(err, driver.ErrAbandoned) {
			results[i].Err, err = err, nil
		}
		switch {
		case err != nil && i == 0 && len(release) == 0 && !sent:
			return nil, s.failed("acquire in turn", err)
		case err != nil:
			return nil, s.unknown("acquire in turn", err)
		}
		if results[i].Token == 0 {
			break
		}
	}
	return results, nil
}

// ask asks for the first of wants, and waits for it if it is not free. If its row is missing those of all are inserted. sent says of an error
// whether the request may have arrived.
func (s *rowSession) ask(ctx context.Context, acquisition string, wants []driver.Want) (r driver.Result, sent bool, err error) {
	c, there, err := s.begin(ctx, acquisition, wants[0])
	if err != nil {
		return r, false, err
	}
	if c == nil {
		return there, false, nil
	}
	conn, token, err := s.lockNow(ctx, c)
	if err != nil {
		sent = c.sent
		s.giveUp(c)
	}
	if err != nil || token > 0 {
		return driver.Result{Token: token}, sent, err
	}
	exists := false
	if r.Holder, exists, err = s.holder(ctx, conn, c.Key); err == nil && !exists {
		missing := make([]string, len(wants))
		for i, w := range wants {
			missing[i] = w.Key
		}
		if err = s.create(ctx, missing); err == nil {
			r.Token, err = s.lock(ctx, conn, c, lockNow)
		}
		if err == nil && r.Token > 0 {
			err = s.hold(ctx, c, conn, r.Token)
		}
	}
	if err == nil {
		_, err = s.endLost(ctx, c, r.Holder)
	}
	if err == nil && r.Token == 0 {
		r.Queued, err = true, s.queueUp(c, conn) //nolint:contextcheck // the wait outlives the call
	}
	if err != nil {
		conn.drop()
		s.giveUp(c)
		return driver.Result{}, true, err
	}
	return r, true, nil
}

// queueUp makes a claim one that waits, on the connection, which the caller drops after an error.
func (s *rowSession) queueUp(c *claim, conn pinned) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return driver.ErrSessionEnded
	case s.claims[c.Place] != c:
		return driver.ErrAbandoned
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.waits, c.cancel = true, cancel
	s.waiting.Go(func() { s.wait(ctx, c, conn) })
	return nil
}

// waitFor is for how many seconds a request waits at the server.
const waitFor = 2

// wait waits for the row lock of a claim until it is granted or ctx ends:
//
//  1. ask for the lock; the server answers when it is free, or after waitFor;
//  2. if it is granted, notify;
//  3. if the row was deleted meanwhile, insert it, unless the session has ended;
//  4. if the connection was lost, take another one, and have the server end the lost one if the key was granted on it.
func (s *rowSession) wait(ctx context.Context, c *claim, conn pinned) {
	defer c.cancel()
	for n := 0; ctx.Err() == nil; n++ {
		var err error
		if conn.Conn == nil {
			conn, err = s.pin(ctx, s.ttl)
		}
		if err == nil && c.unsure {
			if err = s.endOwn(ctx, c.Acquisition, []string{c.Key}); err == nil {
				c.unsure = false
			}
		}
		var token driver.Token
		if err == nil {
			token, err = s.lock(ctx, conn, c, lockInTurn)
			// One that Abandon has ended is not: the server finds out when it is about to grant.
			c.unsure = err != nil && ctx.Err() == nil && s.Fault(ctx, err) != sqlkit.FaultConflict
		}
		late := s.Fault(ctx, err) == sqlkit.FaultConflict
		switch {
		case token > 0:
			if err = s.hold(ctx, c, conn, token); err == nil {
				select {
				case s.granted <- driver.Grant{Place: c.Place, Token: token}:
				default:
				}
				return
			}
		case conn.Conn != nil && (err == nil || late):
			if err = s.alive(ctx, conn); err == nil && !late {
				err = s.create(ctx, []string{c.Key})
			}
			n = 0
		}
		if err != nil {
			if conn.Conn != nil {
				conn.drop()
			}
			conn = pinned{}
			_ = sqlkit.Pause(ctx, n, s.Dialect.Nap())
		}
	}
	if conn.Conn != nil {
		conn.drop()
	}
	close(c.done)
}

// alive ends the session if the server has ended it.
func (s *rowSession) alive(ctx context.Context, conn pinned) error {
	var id string
	there, err := s.With(ctx, conn).One(`SELECT id FROM {anchors} WHERE id = ?`, []any{s.id}, &id)
	if err == nil && !there {
		s.end()
		err = driver.ErrSessionEnded
	}
	return err
}

// Granted implements driver.Queue.
func (s *rowSession) Granted() <-chan driver.Grant { return s.granted }

// Look implements driver.Queue. Whether the holder's session has expired is up to the server.
func (s *rowSession) Look(ctx context.Context, places []driver.Place) ([]driver.Result, error) {
	if s.isOver() {
		return nil, s.failed("look", driver.ErrSessionEnded)
	}
	results := make([]driver.Result, len(places))
	var waiting []string
	for i, p := range places {
		s.mu.Lock()
		c := s.claims[p]
		var conn pinned
		if c != nil {
			results[i], conn = driver.Result{Token: c.token, Queued: c.token == 0}, c.conn
		}
		s.mu.Unlock()
		switch {
		case results[i].Queued:
			waiting = append(waiting, p.Key)
		case c != nil:
			gone, err := conn.ask(ctx)
			switch {
			case gone:
				s.lose(c)
				results[i].Token, c = 0, nil
			case err != nil:
				return nil, s.failed("look", err)
			}
		}
		if c == nil {
			results[i].Err = fmt.Errorf("%s: %w", p.Key, driver.ErrNotQueued)
		}
	}
	var holders map[string]driver.Info
	err := s.view(ctx, func(t *sqlkit.Tx) (err error) {
		var id string
		there, err := t.One(`SELECT id FROM {anchors} WHERE id = ?`, []any{s.id}, &id)
		if err == nil && !there {
			err = driver.ErrSessionEnded
		}
		if err == nil {
			holders, err = s.holders(t, waiting)
		}
		return err
	})
	if errors.Is(err, driver.ErrSessionEnded) {
		s.end()
	}
	if err != nil {
		return nil, s.failed("look", err)
	}
	for i, p := range places {
		if h, there := holders[p.Key]; there && results[i].Queued {
			results[i].Holder = &h
		}
	}
	return results, nil
}

// Abandon implements driver.Session. It closes the connection of what waits: the server finds out when it is about to grant, or
// after waitFor, or, if it cannot be reached, when the connection has been silent for the TTL. What was granted on a connection that was lost with
// the answer is looked for at the server.
func (s *rowSession) Abandon(ctx context.Context, acquisition string, keys []string) error {
	s.mu.Lock()
	now := time.Now()
	s.abandoned.Add(acquisition, s.ttl)
	var waited, held []*claim
	var lost []string // keys that the server may have for the acquisition
	for _, key := range keys {
		c := s.claims[driver.Place{Acquisition: acquisition, Key: key}]
		switch {
		case c == nil:
			lost = append(lost, key)
			continue
		case c.token > 0:
			held = append(held, c)
		default:
			c.cancel()
			waited = append(waited, c)
		}
		s.drop(c)
		s.idle[key] = now
	}
	over := s.over
	s.mu.Unlock()
	if !s.release(ctx, held) {
		for _, c := range held {
			lost = append(lost, c.Key)
		}
	}
	for _, c := range waited {
		select {
		case <-c.done:
		case <-ctx.Done():
			return s.failed("abandon", ctx.Err())
		}
		if c.unsure {
			lost = append(lost, c.Key)
		}
	}
	if over {
		return nil
	}
	if err := s.endOwn(ctx, acquisition, lost); err != nil {
		return s.failed("abandon", err)
	}
	return nil
}

// stopWaiting ends all waits.
func (s *rowSession) stopWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.waits {
			s.drop(c)
			c.cancel()
		}
	}
}
