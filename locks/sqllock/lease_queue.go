package sqllock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Queue implements driver.Session.
func (s *leaseSession) Queue() driver.Queue { return s }

// Granted implements driver.Queue.
func (s *leaseSession) Granted() <-chan driver.Grant { return s.granted }

// Acquire releases and asks in one transaction.
func (s *leaseSession) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	results, number, err := s.acquire(ctx, acquisition, release, wants, true)
	if err != nil {
		return nil, s.failed("acquire in turn", err)
	}
	for i, r := range results {
		if r.Queued {
			s.await(ctx, driver.Place{Acquisition: acquisition, Key: wants[i].Key}, number, r.Holder)
		}
	}
	return results, nil
}

// Look reads the places and the holders before them. Only if that leaves something to be done it writes: it ends sessions
// that have expired, and grants what that frees.
func (s *leaseSession) Look(ctx context.Context, places []driver.Place) (results []driver.Result, err error) {
	results, err = s.peekPlaces(ctx, places)
	if err == nil && results == nil {
		err = s.change(ctx, 1, func(c *change) error {
			if err := c.alive(); err != nil {
				return err
			}
			var keys []string
			for _, p := range places {
				keys = append(keys, p.Key)
			}
			if err := c.load(keys); err != nil {
				return err
			}
			results = make([]driver.Result, len(places))
			for i, p := range places {
				k := c.keys[p.Key]
				if err := c.advance(k); err != nil {
					return err
				}
				had, err := c.had(k, p.Acquisition)
				if err != nil {
					return err
				}
				if had == nil {
					results[i].Err = driver.ErrNotQueued
				} else {
					results[i] = k.result(had)
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, s.failed("look", err)
	}
	for i, r := range results {
		switch {
		case r.Token > 0:
			s.notify(driver.Grant{Place: places[i], Token: r.Token})
		case !r.Queued:
			s.forget(places[i])
		default:
			s.seen(ctx, places[i], r.Holder)
		}
	}
	return results, nil
}

// peekPlaces returns what became of places, if each is held, or queued behind holders and a first place that are alive: else
// nil. Places are read first: one that is granted in between is seen as held.
func (s *leaseSession) peekPlaces(ctx context.Context, places []driver.Place) (results []driver.Result, err error) {
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.Key
	}
	names = sqlkit.Distinct(names)
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		results = nil
		mine, err := s.own(t, names)
		if err != nil {
			return err
		}
		keys, err := s.holdersOf(t, names)
		if err != nil {
			return err
		}
		blocked, err := s.blocked(t, names)
		if err != nil || blocked {
			return err
		}
		for _, p := range mine {
			keys[p.info.Key].queue = append(keys[p.info.Key].queue, p)
		}
		for _, p := range places {
			k := keys[p.Key]
			if _, err := s.pullIn(t, k.holders); err != nil {
				return err
			}
			had := k.find(s.id, p.Acquisition)
			if had == nil || !had.live() || len(k.holders) == 0 || len(sessionsOf(k.holders, func(p *part) bool { return !p.live() })) > 0 {
				results = nil
				return nil
			}
			results = append(results, k.result(had))
		}
		return nil
	})
	return results, err
}

// Abandon deletes the places and the holdings of an acquisition, and grants on what that frees. The mark that refuses it is
// in the memory of the session. Whatever arrives late at the server belongs to a transaction that has locked the mark
// of the namespace, so this one waits for its end; or it hands on a holding, which is freed here.
func (s *leaseSession) Abandon(ctx context.Context, acquisition string, keys []string) error {
	s.refuse(acquisition)
	err := s.change(ctx, 1, func(c *change) error {
		n, err := c.t.Exec(`DELETE FROM {places} WHERE namespace = ? AND {in name name} AND session_id = ? AND acquisition = ?`,
			sqlkit.Keys(sqlkit.Distinct(keys)), c.namespace, c.id, acquisition)
		if err == nil {
			err = c.load(keys)
		}
		if err != nil {
			return err
		}
		c.wrote = c.wrote || n > 0
		if err := c.release(s.pending(acquisition)); err != nil {
			return err
		}
		for _, name := range keys {
			k := c.keys[name]
			if p := k.find(c.id, acquisition); p != nil {
				c.drop(k, p)
			}
			if err := c.advance(k); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range keys {
		s.forget(driver.Place{Acquisition: acquisition, Key: name})
	}
	if err != nil {
		return s.failed("abandon", err)
	}
	s.settled(acquisition)
	return nil
}

// refuse refuses an acquisition for one ttl.
func (s *leaseSession) refuse(acquisition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned.Add(acquisition, s.ttl)
}

// refuses is asked while the mark of the namespace is locked: what was not refused then, Abandon finds.
func (s *leaseSession) refuses(acquisition string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned.Has(acquisition)
}
