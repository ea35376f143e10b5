package memlock

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// key has the holders of one key, in the order of their grants, and the queue behind them.
//
//	waiting ──▶ held ──▶ (gone): released, evicted, abandoned, or its session has ended
type key struct {
	holders []*holding
	queue   []*holding
	alone   [1]*holding // the holders while there is one
	first   holding     // the first one of the key, in the same allocation
}

// holding is what an acquisition has of a key: a grant, or a place in the queue while its token is 0.
type holding struct {
	token       driver.Token
	session     *session
	acquisition string
	want        driver.Want
	since       time.Time
}

// find returns what an acquisition of a session has of the key.
func (k *key) find(c *session, acquisition string) (found *holding) {
	k.any(func(h *holding) bool {
		if h.session == c && h.acquisition == acquisition {
			found = h
		}
		return found != nil
	})
	return found
}

// any reports whether is holds for one of the holders and the queue.
func (k *key) any(is func(*holding) bool) bool {
	return slices.ContainsFunc(k.holders, is) || slices.ContainsFunc(k.queue, is)
}

// drop takes out what satisfies gone, and reports whether there was something.
func (k *key) drop(gone func(*holding) bool) bool {
	before := len(k.holders) + len(k.queue)
	k.holders = slices.DeleteFunc(k.holders, gone)
	k.queue = slices.DeleteFunc(k.queue, gone)
	return len(k.holders)+len(k.queue) < before
}

// admits reports whether w may hold the key together with its holders.
func (k *key) admits(w driver.Want) bool {
	if len(k.holders) == 0 {
		return true
	}
	first := k.holders[0].want
	return first.Shared == w.Shared && most(first) == most(w) && (w.Shared || len(k.holders) < most(w))
}

// result is the outcome for what an acquisition has of the key.
func (k *key) result(h *holding) driver.Result {
	if h.token > 0 {
		return driver.Result{Token: h.token}
	}
	return driver.Result{Queued: true, Holder: k.holders[0].info()} // the queue of a free key is empty
}

// most is how many may hold a key that is not shared.
func most(w driver.Want) int { return max(w.Limit, 1) }

// info describes a holder, or one that waits.
func (h *holding) info() *driver.Info {
	c := h.session
	return &driver.Info{
		Key: h.want.Key, Token: h.token, Session: c.id, Owner: c.owner, Meta: h.want.Meta,
		Shared: h.want.Shared, Limit: h.want.Limit, Since: h.since, Remaining: c.ttl - c.service.now.Sub(c.renewed),
	}
}

// unread is how many grants a session may have unread: later ones are found by Look.
const unread = 1024

func (c *session) notify(g driver.Grant) {
	select {
	case c.granted <- g:
	default:
	}
}

// Queue implements driver.Session.
func (c *session) Queue() driver.Queue { return c }

// Acquire implements driver.Queue.
func (c *session) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) (results []driver.Result, err error) {
	err = c.call(ctx, "acquire in turn", func(s *Service) error {
		if !s.live(c) {
			return driver.ErrSessionEnded
		}
		for _, h := range release {
			s.release(c, h)
		}
		results = make([]driver.Result, len(wants))
		for i, w := range wants {
			if results[i] = s.ask(c, acquisition, w, true); results[i].Token == 0 {
				break
			}
		}
		return nil
	})
	return results, err
}

// Granted implements driver.Queue.
func (c *session) Granted() <-chan driver.Grant { return c.granted }

// Look implements driver.Queue.
func (c *session) Look(ctx context.Context, places []driver.Place) (results []driver.Result, err error) {
	err = c.call(ctx, "look", func(s *Service) error {
		if !s.live(c) {
			return driver.ErrSessionEnded
		}
		for _, p := range places {
			k := s.at(place{c.namespace, p.Key})
			if h := k.find(c, p.Acquisition); h != nil {
				results = append(results, k.result(h))
			} else {
				results = append(results, driver.Result{Err: driver.ErrNotQueued})
			}
		}
		return nil
	})
	return results, err
}
