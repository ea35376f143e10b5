package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	over := s.isOver()
	results, err := calls.Await(ctx, &s.calls, func() ([]driver.Result, error) {
		results := make([]driver.Result, len(wants))
		calls.Each((len(wants)+together-1)/together, inFlight/together+1, func(i int) error {
			from, to := i*together, min((i+1)*together, len(wants))
			s.trySome(ctx, acquisition, wants[from:to], results[from:to], over)
			return nil
		})
		return results, nil
	})
	if err != nil {
		return nil, s.ungranted(over, err)
	}
	return results, s.verdict(results)
}

// trySome tries keys: with one request, and if they are not all free, one by one.
func (s *session) trySome(ctx context.Context, acquisition string, wants []driver.Want, results []driver.Result, over bool) {
	if ctx.Err() == nil && len(wants) > 1 && s.tryWhole(acquisition, wants, results, over) {
		return
	}
	calls.Each(len(wants), inFlight, func(i int) error {
		if ctx.Err() != nil { // the call was given up
			results[i].Err = calls.Ended(ctx)
			return nil
		}
		results[i] = s.tryOne(acquisition, wants[i], over)
		return nil
	})
}

// tryWhole is true if it has the results of all.
func (s *session) tryWhole(acquisition string, wants []driver.Want, results []driver.Result, over bool) bool {
	hs, plain := s.claims(acquisition, wants)
	defer s.unlock(hs)
	if !plain {
		return false
	}
	granted, err := s.tryAll(hs, false)
	for i, h := range hs {
		if err != nil {
			results[i] = driver.Result{Err: s.ungranted(over, err)}
		} else {
			results[i] = driver.Result{Token: h.token}
		}
	}
	return err != nil || granted == len(hs)
}

// claims returns the holdings of an acquisition, locked, up to the first that is not fresh, or whose key is not asked for alone, or
// may have a queue. It is false if there is such a one.
func (s *session) claims(acquisition string, wants []driver.Want) (hs []*holding, plain bool) {
	for _, w := range wants {
		if !kindOf(w).alone() || s.book.guess(w.Key) {
			return hs, false
		}
		h, err := s.claim(acquisition, w)
		if err != nil {
			return hs, false
		}
		if h.state != fresh {
			h.mu.Unlock()
			return hs, false
		}
		h.kind, h.meta = kindOf(w), w.Meta
		hs = append(hs, h)
	}
	return hs, true
}

// unlock lets holdings go, and drops those that have nothing.
func (s *session) unlock(hs []*holding) {
	for _, h := range hs {
		if h.state == fresh {
			s.drop(h)
		}
		h.mu.Unlock()
	}
}

func (s *session) tryOne(acquisition string, w driver.Want, over bool) driver.Result {
	h, err := s.claim(acquisition, w)
	if err != nil {
		return driver.Result{Err: err}
	}
	defer s.unlock([]*holding{h})
	r, err := s.ask(h, w)
	if err == nil && h.state == fresh {
		r, err = s.try(h, false)
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

// unsaid is the error of a request that was to find out what a holding has: it does not say that nothing was granted.
func unsaid(err error) error {
	if errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	return fmt.Errorf("read what it has: %v", err) //nolint:errorlint // a sentinel would say that nothing was granted, which is not known
}
