package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	// unread is how many grants a session may have unread: later ones are found by Look.
	unread = 1024
	// together is how many keys one request asks for.
	together = 50
)

func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	over := s.isOver()
	results, err := calls.Await(ctx, &s.calls, func() ([]driver.Result, error) {
		results := make([]driver.Result, len(wants))
		calls.Each(len(wants), inFlight, func(i int) error {
			if ctx.Err() != nil { // the call was given up
				results[i].Err = calls.Ended(ctx)
				return nil
			}
			results[i] = s.tryOne(acquisition, wants[i], over)
			return nil
		})
		return results, nil
	})
	if err != nil {
		return nil, s.ungranted(over, err)
	}
	return results, s.verdict(results)
}

func (s *session) tryOne(acquisition string, w driver.Want, over bool) driver.Result {
	h, err := s.claim(acquisition, w)
	if err != nil {
		return driver.Result{Err: err}
	}
	defer h.mu.Unlock()
	r, err := s.ask(h, w)
	if err == nil && h.state == fresh {
		if r, err = s.try(h, false); err == nil && r.Token == 0 {
			s.drop(h)
		}
	}
	if err != nil {
		return driver.Result{Err: s.ungranted(over, err)}
	}
	return r
}

// ask says what a holding has already, from an earlier request; it is fresh if it has nothing.
func (s *session) ask(h *holding, w driver.Want) (driver.Result, error) {
	if h.state == unsure {
		if _, err := s.answer(h, false); err != nil {
			return driver.Result{}, unsaid(err)
		}
	}
	switch {
	case h.state == held:
		there, err := s.holds(h)
		if err != nil {
			return driver.Result{}, unsaid(err)
		}
		if there {
			return driver.Result{Token: h.token}, nil
		}
		s.lost(h) // it was evicted
	case h.state == waiting && h.meta != w.Meta:
		h.meta = w.Meta
		if _, err := s.conn.Set(h.node, s.record(h), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Result{}, unsaid(err)
		}
	}
	if h.state == waiting {
		r, err := s.look(h, false)
		if err != nil {
			return r, unsaid(err)
		}
		if r.Err == nil {
			return r, nil
		}
	}
	h.kind, h.meta = kindOf(w), w.Meta
	return driver.Result{}, nil
}

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
			granted, err := s.run(acquisition, wants[at:min(len(wants), at+together)], results[at:], over)
			if err != nil {
				return nil, err
			}
			if at += granted; granted == 0 {
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

// run asks for keys up to the first that is not granted, where it takes a place, and returns how many were granted; or for
// fewer, if they were all granted.
func (s *session) run(acquisition string, wants []driver.Want, results []driver.Result, over bool) (granted int, err error) {
	var hs []*holding
	defer func() {
		for _, h := range hs {
			if h.state == fresh {
				s.drop(h)
			}
			h.mu.Unlock()
		}
	}()
	first, err := s.claim(acquisition, wants[0])
	if err != nil {
		results[0] = driver.Result{Err: err}
		return 0, nil
	}
	hs = append(hs, first)
	if r, err := s.ask(first, wants[0]); err != nil || first.state != fresh {
		results[0] = r
		if err != nil {
			results[0] = driver.Result{Err: s.ungranted(over, err)}
		}
		if r.Token > 0 {
			granted = 1
		}
		return granted, nil
	}
	for _, w := range wants[1:] {
		if !first.kind.alone() || !kindOf(w).alone() {
			break
		}
		h, err := s.claim(acquisition, w)
		if err != nil {
			break
		}
		hs = append(hs, h)
		if h.state != fresh {
			break
		}
	}
	batch := hs
	if last := hs[len(hs)-1]; last.state != fresh {
		batch = hs[:len(hs)-1]
	}
	if len(batch) > 1 {
		granted, err = s.tryAll(batch)
		if err != nil {
			for i := range batch {
				results[i] = driver.Result{Err: s.ungranted(over, err)}
			}
			return 0, nil
		}
		for i := range granted {
			results[i] = driver.Result{Token: batch[i].token}
		}
		if granted == len(batch) {
			return granted, nil
		}
	}
	h := batch[granted]
	r, err := s.try(h, true)
	if err == nil && r.Token == 0 {
		if err = s.enqueue(h); err == nil {
			r, err = s.look(h, false)
			if r.Token > 0 { // it comes as of any place
				r = driver.Result{Queued: true}
			}
		}
	}
	if err != nil {
		r = driver.Result{Err: s.ungranted(over, err)}
	}
	results[granted] = r
	if r.Token > 0 {
		granted++
	}
	return granted, nil
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

// Abandon implements driver.Queue.
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

// unsaid is the error of a request that was to find out what a holding has: it does not say that nothing was granted.
func unsaid(err error) error {
	if errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	return fmt.Errorf("read what it has: %v", err) //nolint:errorlint // a sentinel would say that nothing was granted, which is not known
}
