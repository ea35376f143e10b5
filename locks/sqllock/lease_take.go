package sqllock

import (
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// TryAcquire asks for the keys in one transaction. Of several keys, and of one that was busy before, it reads first who
// holds them: if all are held it writes nothing.
func (s *leaseSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	if len(wants) != 1 || s.wasBusy(wants[0].Key) {
		results, err := s.peek(ctx, acquisition, wants)
		if err == nil && results == nil {
			var waited bool
			waited, err = s.enterTurn(ctx)
			if err == nil {
				defer func() { <-s.turn }()
			}
			if err == nil && waited {
				results, err = s.peek(ctx, acquisition, wants)
			}
		}
		if err != nil {
			return nil, s.failed("acquire", err)
		}
		if results != nil {
			return results, nil
		}
	}
	results, _, err := s.acquire(ctx, acquisition, nil, wants, false)
	if err != nil {
		return nil, s.failed("acquire", err)
	}
	return results, nil
}

// enterTurn waits for the session's turn to try keys that others want: its callers would only race with each other, and most find
// after a wait that the key has gone. It reports whether it waited.
func (s *leaseSession) enterTurn(ctx context.Context) (waited bool, err error) {
	select {
	case s.turn <- struct{}{}:
		return false, nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (s *leaseSession) wasBusy(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[key]
}

// mostBusy is how many busy keys are remembered.
const mostBusy = 1000

func (s *leaseSession) note(wants []driver.Want, results []driver.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range results {
		delete(s.busy, wants[i].Key)
		if r.Holder != nil && len(s.busy) < mostBusy {
			s.busy[wants[i].Key] = true
		}
	}
}

// peek reads the holders of keys, and returns the results if that decides about all of them: else nil.
func (s *leaseSession) peek(ctx context.Context, acquisition string, wants []driver.Want) (results []driver.Result, err error) {
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		results = nil
		keys, err := s.holdersOf(t, keysWanted(wants))
		if err != nil {
			return err
		}
		for _, w := range wants {
			k := keys[w.Key]
			if _, err := s.pullIn(t, k.holders); err != nil {
				return err
			}
			had := k.find(s.id, acquisition)
			switch {
			case slices.ContainsFunc(k.holders, func(p *part) bool { return !p.live() }):
				results = nil
				return nil
			case had != nil:
				results = append(results, k.result(had))
			case k.admits(asks(w)):
				results = nil
				return nil
			default:
				results = append(results, driver.Result{Holder: k.holder()})
			}
		}
		return nil
	})
	return results, err
}

// acquire releases keys, asks for others, and writes what came of it. It does not read a single key of which it expects that nobody
// else has or wants it.
// number is that of the place that was taken.
func (s *leaseSession) acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want, wait bool) (results []driver.Result, number int64, err error) {
	handsOn := len(release) == 1 && len(wants) == 1 && release[0].Key == wants[0].Key && !wants[0].Shared && most(asks(wants[0])) == 1
	alone := len(wants) == 1 && (len(release) == 0 || handsOn) && !s.wasBusy(wants[0].Key)
	if alone && handsOn {
		token, err := s.handOn(ctx, acquisition, release[0], wants[0])
		if err != nil || token > 0 {
			return []driver.Result{{Token: token}}, 0, err
		}
	}
	tokens := len(wants)
	if alone {
		tokens++
	}
	if wait {
		tokens++ // the number of a place; or what is released is granted on
	}
	if alone && handsOn {
		tokens += reserved
	}
	var left reserve
	err = s.change(ctx, tokens, func(c *change) error {
		results, left = make([]driver.Result, len(wants)), reserve{}
		if alone {
			token, err := c.takeAlone(acquisition, release, wants[0])
			if token > 0 {
				results[0].Token = token
				left = reserve{token, c.next, c.last}
			}
			if err != nil || token > 0 {
				return err
			}
		}
		if err := c.load(append(keysWanted(wants), keysHeld(release)...)); err != nil {
			return err
		}
		if err := c.alive(); err != nil {
			return err
		}
		if err := c.release(release); err != nil {
			return err
		}
		for _, w := range wants {
			if err := c.advance(c.keys[w.Key]); err != nil {
				return err
			}
		}
		for i, w := range wants {
			if results[i], number, err = c.ask(acquisition, w, wait); err != nil {
				return err
			}
			if wait && results[i].Token == 0 {
				break
			}
		}
		return nil
	})
	if err == nil {
		s.note(wants, results)
		s.settled(acquisition)
		if handsOn {
			s.keep(wants[0].Key, left)
		}
	}
	return results, number, err
}

// takeAlone takes a key that nobody has or waits for, or makes a holding that nobody waits for the next one.
func (c *change) takeAlone(acquisition string, release []driver.Held, w driver.Want) (driver.Token, error) {
	if c.refuses(acquisition) {
		return 0, nil
	}
	token, err := c.token()
	switch {
	case err != nil:
		return 0, err
	case len(release) == 0:
		token, err = c.takeFree(c.t, acquisition, w, token)
	default:
		token, err = c.turnInto(c.t, acquisition, release[0], w, token)
	}
	c.wrote = token > 0
	return token, err
}

// takeFree takes a key that has no holder and no place, by one statement; 0: there are some, or the session has ended.
// Sessions and keys are found by their primary keys.
func (s *leaseSession) takeFree(t *sqlkit.Tx, acquisition string, w driver.Want, token driver.Token) (driver.Token, error) {
	n, err := t.Exec(`INSERT INTO {leases} (namespace, name, token, session_id, acquisition, meta, since, shared, capacity, waits)
		SELECT ?, ?, ?, s.id, ?, ?, {now}, ?, ?, 0 FROM {sessions} s WHERE s.id = ? AND s.dead = 0 AND s.expires_at > {now}
			AND NOT EXISTS (SELECT 1 FROM {leases} l WHERE l.namespace = ? AND l.name = ?)
			AND NOT EXISTS (SELECT 1 FROM {places} p WHERE p.namespace = ? AND p.name = ?)`,
		s.namespace, w.Key, int64(token), acquisition, w.Meta, w.Shared, w.Limit, s.id, s.namespace, w.Key, s.namespace, w.Key)
	if err != nil || n == 0 {
		return 0, err
	}
	return token, nil
}

func keysWanted(wants []driver.Want) []string {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	return keys
}

func keysHeld(held []driver.Held) []string {
	keys := make([]string, len(held))
	for i, h := range held {
		keys[i] = h.Key
	}
	return keys
}
