package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// staleHolder releases what its successor holds, in a namespace of its own.
type staleHolder struct {
	driver driver.Driver
	closer func() error
	last   driver.Session // holds key under token, or did
	token  driver.Token
}

const (
	key = "stale-owner"
	ttl = 2 * time.Second
)

func openHolder(s dial.Service) (*staleHolder, error) {
	d, closer, err := s.Open("stale", ttl)
	return &staleHolder{driver: d, closer: closer}, err
}

// write acquires the key, and then releases it with the hold of the holder before.
func (h *staleHolder) write(ctx context.Context, log *history.Log[history.Stale]) error {
	next, err := h.driver.Open(ctx, driver.Open{Namespace: "chaos-stale", TTL: ttl, Owner: "stale-owner"})
	if err != nil {
		return err
	}
	previous, old := h.last, driver.Held{Key: key, Token: h.token}
	if previous != nil {
		defer func() { _ = previous.Close(ctx) }() // it may be lost
		if err := previous.Release(ctx, []driver.Held{old}); err != nil {
			return errors.Join(err, next.Close(ctx))
		}
	}
	h.last = nil
	granted, err := next.TryAcquire(ctx, rand.Text(), []driver.Want{{Key: key}})
	if err != nil || granted[0].Token == 0 { // not even tried, not known, or not free yet
		return errors.Join(err, next.Close(ctx))
	}
	h.last, h.token = next, granted[0].Token
	if previous == nil {
		return nil
	}
	mine := []driver.Held{{Key: key, Token: h.token}}
	if held, err := next.Check(ctx, mine); err != nil || !held[0] { // a fault was faster
		return err
	}
	s := history.Stale{At: time.Now(), What: "release", TaskID: key, Token: int64(old.Token)}
	if err := previous.Release(ctx, []driver.Held{old}); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		return err
	}
	still, err := next.Check(ctx, mine)
	if err != nil {
		return err
	}
	if !still[0] { // by a fault, or by the release: a live session can check
		if _, err := next.Renew(ctx, nil); err != nil {
			return err
		}
	}
	// A release with a stale hold is ignored without an error: changing nothing is the refusal.
	s.Refused, s.Changed = still[0], !still[0]
	return log.Add(s)
}

func (h *staleHolder) close(ctx context.Context) error {
	var errs []error
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if h.last != nil {
		errs = append(errs, h.last.Close(ctx))
	}
	return errors.Join(append(errs, h.closer())...)
}
