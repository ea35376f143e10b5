package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Release implements driver.Session. It succeeds when a majority has freed the keys; the others are told with the next calls.
func (s *session) Release(ctx context.Context, held []driver.Held) error {
	var freed []*holding
	var attempts []attempt
	s.mu.Lock()
	for _, held := range held {
		if h := s.book.under[held]; h != nil { // no other was granted, or it was released before
			h.freeing++
			freed, attempts = append(freed, h), append(attempts, h.attempt)
		}
	}
	s.mu.Unlock()
	err := s.free(ctx, attempts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		restore(freed, err)
		return fmt.Errorf("quorumlock: release: %w", err)
	}
	for _, h := range freed {
		s.book.forget(h)
	}
	return nil
}

// Abandon implements driver.Session. Servers refuse the ballots that the acquisition has used, and the session makes no other ones for
// it. It succeeds as Release does.
func (s *session) Abandon(ctx context.Context, acquisition string, keys []string) error {
	locked, err := s.lockKeys(ctx, slices.Compact(slices.Sorted(slices.Values(keys)))) // a call for the acquisition may be under way
	defer s.unlockKeys(locked)
	if err != nil {
		return fmt.Errorf("quorumlock: abandon: %w", err)
	}
	var attempts []attempt
	var freed []*holding
	s.mu.Lock()
	s.book.abandoned.Add(acquisition, s.ttl)
	for _, key := range keys {
		r := request{acquisition, key}
		a, there := s.book.undecided[r]
		if h := s.book.granted[r]; h != nil {
			h.freeing++
			freed = append(freed, h)
			a, there = h.attempt, true
		}
		if a.inFlight = s.everywhere(); there {
			attempts = append(attempts, a)
		}
	}
	s.mu.Unlock()
	err = s.free(ctx, attempts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		restore(freed, err)
		return fmt.Errorf("quorumlock: abandon: %w", err)
	}
	for _, key := range keys {
		delete(s.book.undecided, request{acquisition, key})
	}
	for _, h := range freed {
		s.book.forget(h)
	}
	return nil
}

// restore notes that holdings are held as before if certainly nothing was sent to free them. With the session's mu held.
func restore(freed []*holding, err error) {
	for _, h := range freed {
		if errors.Is(err, driver.ErrUnreachable) {
			h.freeing--
		}
	}
}

// free deletes votes and holdings on all servers. A server where a request may still arrive refuses its ballot from then on. It
// succeeds when a majority has done so; the others do it with the next calls.
func (s *session) free(ctx context.Context, attempts []attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	rs := s.ask(ctx, s.everywhere(), 0, s.majorityOK, func(ctx context.Context, i int) ([]any, error) {
		args := []any{s.id, s.ttl.Microseconds()}
		for _, a := range attempts {
			args = append(args, a.key, a.kind, a.number, a.inFlight.has(i))
		}
		return s.eval(ctx, i, freeScript, args...)
	})
	ok := rs.said("ok")
	if !s.isMajority(ok) {
		return s.partial(rs, "freed the keys", rs.where(reply.sent))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	(s.everywhere() &^ ok).each(func(i int) {
		for _, a := range attempts {
			s.members[i].freeLater(a.ballot)
		}
	})
	return nil
}
