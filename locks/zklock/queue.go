package zklock

import (
	"context"
	"errors"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	// unread is how many grants a session may have unread: later ones are found by Look.
	unread = 1024
	// together is how many keys one request asks for.
	together = 50
)

// Queue implements driver.Session.
func (s *session) Queue() driver.Queue { return s }

// Acquire implements driver.Queue.
func (s *session) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	over := s.isOver()
	results, err := calls.Await(ctx, &s.calls, func() ([]driver.Result, error) {
		if r, done, err := s.turn(acquisition, release, wants); done || err != nil {
			return []driver.Result{r}, err
		}
		if err := s.releaseAll(release); err != nil {
			return nil, err
		}
		results := make([]driver.Result, len(wants))
		for at := 0; at < len(wants); {
			at += s.run(acquisition, wants[at:min(len(wants), at+together)], results[at:], over)
			if at < len(wants) && results[at] != (driver.Result{}) {
				break
			}
		}
		return results, nil
	})
	if err != nil {
		return nil, s.ungranted(over, err)
	}
	return results, s.verdict(asked(results))
}

// asked are the results of the keys that were asked for.
func asked(results []driver.Result) []driver.Result {
	for i, r := range results {
		if r == (driver.Result{}) {
			return results[:i]
		}
	}
	return results
}

// run asks for keys up to the first that is not granted, which has a place then, or an error; or for some of them, which were
// granted. It returns how many were.
func (s *session) run(acquisition string, wants []driver.Want, results []driver.Result, over bool) int {
	asked, granted, err := s.runWhole(acquisition, wants, results)
	if err != nil {
		for i := range asked {
			results[i] = driver.Result{Err: s.ungranted(over, err)}
		}
		return 0
	}
	if asked > 0 && granted == asked {
		return granted
	}
	results[granted] = s.askInTurn(acquisition, wants[granted], over)
	if results[granted].Token > 0 {
		granted++
	}
	return granted
}

// runWhole asks for keys with one request, if there are several that can be. Those before the first that is not free are granted.
func (s *session) runWhole(acquisition string, wants []driver.Want, results []driver.Result) (asked, granted int, err error) {
	if len(wants) < 2 {
		return 0, 0, nil
	}
	hs, _ := s.claims(acquisition, wants)
	defer s.unlock(hs)
	if len(hs) < 2 {
		return 0, 0, nil
	}
	granted, err = s.tryAll(hs, true)
	for i, h := range hs[:granted] {
		results[i] = driver.Result{Token: h.token}
	}
	return len(hs), granted, err
}

// askInTurn asks for a key, and takes a place if it is not free.
func (s *session) askInTurn(acquisition string, w driver.Want, over bool) driver.Result {
	h, err := s.claim(acquisition, w)
	if err != nil {
		return driver.Result{Err: err}
	}
	defer s.unlock([]*holding{h})
	r, err := s.ask(h, w)
	if err == nil && h.state == fresh {
		if r, err = s.try(h, true); err == nil && r.Token == 0 {
			r, err = s.queueUp(h)
		}
	}
	if err != nil {
		return driver.Result{Err: s.ungranted(over, err)}
	}
	return r
}

// queueUp takes a place. If its turn comes at once, that is notified as that of any place: who asked later may have been told
// that it waits.
func (s *session) queueUp(h *holding) (driver.Result, error) {
	if err := s.enqueue(h); err != nil {
		return driver.Result{}, err
	}
	return s.queued(h)
}

// queued is the result of a place that was just taken.
func (s *session) queued(h *holding) (driver.Result, error) {
	r, err := s.look(h, false)
	if err == nil && r.Token > 0 {
		r = driver.Result{Queued: true}
	}
	return r, err
}

// Granted implements driver.Queue.
func (s *session) Granted() <-chan driver.Grant { return s.granted }

func (s *session) notify(g driver.Grant) {
	select {
	case s.granted <- g:
	default:
	}
}

// Look implements driver.Queue.
func (s *session) Look(ctx context.Context, places []driver.Place) ([]driver.Result, error) {
	results, err := calls.Await(ctx, &s.calls, func() ([]driver.Result, error) {
		if s.isOver() {
			return nil, driver.ErrSessionEnded
		}
		results := make([]driver.Result, len(places))
		errs := calls.Each(len(places), inFlight, func(i int) (err error) {
			results[i], err = s.lookAt(places[i])
			return err
		})
		return results, errors.Join(errs...)
	})
	return results, s.failed("look", err)
}

func (s *session) lookAt(p driver.Place) (driver.Result, error) {
	none := driver.Result{Err: driver.ErrNotQueued}
	h := s.find(p)
	if h == nil {
		return none, nil
	}
	defer h.mu.Unlock()
	r, err := s.answer(h, false)
	switch {
	case err != nil:
		return driver.Result{}, err
	case h.state == held:
		there, err := s.holds(h)
		if err != nil {
			return driver.Result{}, err
		}
		if !there {
			s.drop(h)
			return none, nil
		}
	case h.state == fresh:
		s.drop(h)
		return none, nil
	}
	return r, nil
}

// Abandon implements driver.Session.
func (s *session) Abandon(ctx context.Context, acquisition string, keys []string) error {
	s.refuse(acquisition)
	err := calls.Do(ctx, &s.calls, func() error {
		return errors.Join(calls.Each(len(keys), inFlight, func(i int) error {
			h := s.find(driver.Place{Acquisition: acquisition, Key: keys[i]})
			if h == nil {
				return nil
			}
			defer h.mu.Unlock()
			return s.abandon(h)
		})...)
	})
	if err = s.failed("abandon", err); errors.Is(err, driver.ErrSessionEnded) {
		return nil // with all its places
	}
	return err
}

func (s *session) abandon(h *holding) error {
	if h.state == unsure {
		if err := s.resolve(h); err != nil {
			return err
		}
	}
	var err error
	switch h.state {
	case waiting:
		err = gone(s.conn.Delete(h.node, -1))
	case held:
		err = s.release(h)
	}
	if err == nil {
		s.drop(h)
	}
	return err
}
