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
	var has []candidacy
	s.mu.Lock()
	for _, held := range held {
		if h := s.book.under[held]; h != nil { // no other was granted, or it was released before
			h.freeing++
			freed, has = append(freed, h), append(has, h.candidacy)
		}
	}
	s.mu.Unlock()
	err := s.free(ctx, has)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		keep(freed, err)
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
	gates, err := s.enterGates(ctx, slices.Compact(slices.Sorted(slices.Values(keys)))) // a call for the acquisition may be under way
	defer s.leaveGates(gates)
	if err != nil {
		return fmt.Errorf("quorumlock: abandon: %w", err)
	}
	var has []candidacy
	var freed []*holding
	s.mu.Lock()
	s.book.abandon(acquisition, s.ttl)
	for _, key := range keys {
		r := request{acquisition, key}
		c, there := s.book.unclear[r]
		if h := s.book.granted[r]; h != nil {
			h.freeing++
			freed = append(freed, h)
			c, there = h.candidacy, true
		}
		if c.doubt = s.everywhere(); there {
			has = append(has, c)
		}
	}
	s.mu.Unlock()
	err = s.free(ctx, has)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		keep(freed, err)
		return fmt.Errorf("quorumlock: abandon: %w", err)
	}
	for _, key := range keys {
		delete(s.book.unclear, request{acquisition, key})
	}
	for _, h := range freed {
		s.book.forget(h)
	}
	return nil
}

// keep notes that holdings are held as before if certainly nothing was sent to free them. With the session's mu held.
func keep(freed []*holding, err error) {
	for _, h := range freed {
		if errors.Is(err, driver.ErrUnreachable) {
			h.freeing--
		}
	}
}

// free deletes votes and holdings on all servers, and has those in doubt refuse the ballots. It succeeds when a majority has done so;
// the others do it with the next calls.
func (s *session) free(ctx context.Context, has []candidacy) error {
	if len(has) == 0 {
		return nil
	}
	rs := s.ask(ctx, s.everywhere(), 0, func(rs replies) bool { return s.enough(rs.said("ok")) }, func(ctx context.Context, i int) ([]any, error) {
		args := []any{s.id, s.ttl.Microseconds()}
		for _, c := range has {
			args = append(args, c.key, c.kind, c.number, c.doubt.has(i))
		}
		return s.eval(ctx, i, freeScript, args...)
	})
	ok := rs.said("ok")
	if !s.enough(ok) {
		return s.partial(rs, "freed the keys")
	}
	(s.everywhere() &^ ok).each(func(i int) {
		for _, c := range has {
			s.leave(i, c.ballot)
		}
	})
	return nil
}

// Check implements driver.Session.
func (s *session) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	s.mu.Lock()
	was := s.book.evicted
	s.book.evicted = false
	s.mu.Unlock()
	still, err := s.check(ctx, held)
	if err != nil {
		s.mu.Lock()
		s.book.evicted = s.book.evicted || was
		s.mu.Unlock()
		return nil, fmt.Errorf("quorumlock: check: %w", err)
	}
	return still, nil
}

// check asks the servers which keys the session holds. What a majority does not have it holds no more: the others free it.
func (s *session) check(ctx context.Context, held []driver.Held) ([]bool, error) {
	still := make([]bool, len(held))
	asked := make([]*holding, 0, len(held))
	at := make([]int, 0, len(held))
	var args []any
	s.mu.Lock()
	over := s.over
	for i, held := range held {
		if h := s.book.under[held]; h != nil && h.freeing == 0 {
			asked, at = append(asked, h), append(at, i)
			args = append(args, h.key, h.kind, h.number)
		}
	}
	s.mu.Unlock()
	if over {
		return nil, driver.ErrSessionEnded
	}
	if len(asked) == 0 {
		return still, nil
	}
	yes, no := make([]mask, len(asked)), make([]mask, len(asked))
	count := func(rs replies) bool {
		clear(yes)
		clear(no)
		every := true
		for n := range asked {
			for i, r := range rs {
				switch {
				case r.said("ok") && r.answer[1+n] == "1":
					yes[n] = yes[n].with(i)
				case r.said("ok"), r.said("lost"):
					no[n] = no[n].with(i)
				}
			}
			every = every && (s.enough(yes[n]) || s.minority(no[n]))
		}
		return every
	}
	rs := s.ask(ctx, s.everywhere(), 0, count, func(ctx context.Context, i int) ([]any, error) {
		return s.on(ctx, i, checkScript, args...)
	})
	decided := count(rs)
	if s.minority(rs.said("lost")) {
		return nil, s.end()
	}
	if !decided {
		return nil, s.refusal(rs, "answered alike")
	}
	var gone []*try
	s.mu.Lock()
	for n, h := range asked {
		still[at[n]] = s.enough(yes[n])
		if !still[at[n]] && h.freeing == 0 {
			s.book.forget(h)
			gone = append(gone, &try{candidacy: h.candidacy, yes: s.everywhere(), want: driver.Want{Key: h.key}})
		}
	}
	s.mu.Unlock()
	s.giveBack(ctx, "", gone)
	return still, nil
}

// Evict implements driver.Session.
//
//  1. free the key on each server where it is held under the token
//  2. free it on the others, which may have the vote without the token, or are about to get it
func (s *session) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	rs, err := s.evict(ctx, s.everywhere(), key, token, "")
	if err != nil {
		return false, err
	}
	named := ""
	left := s.everywhere()
	for i, r := range rs {
		if !r.said("ok") {
			continue
		}
		if by, _ := r.answer[1].(string); by != "" {
			named, left = by, left.without(i)
		}
	}
	if named == "" {
		return false, nil
	}
	if left != 0 {
		if _, err := s.evict(ctx, left, key, token, named); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *session) evict(ctx context.Context, whom mask, key string, token driver.Token, by string) (replies, error) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		return nil, fmt.Errorf("quorumlock: evict: %w", driver.ErrSessionEnded)
	}
	others := s.everywhere() &^ whom // have freed it
	rs := s.ask(ctx, whom, 0, func(rs replies) bool { return s.enough(rs.said("ok") | others) }, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, evictScript, s.ttl.Microseconds(), key, int64(token), by)
	})
	if !s.enough(rs.said("ok") | others) {
		return rs, fmt.Errorf("quorumlock: evict: %w", s.partial(rs, "answered"))
	}
	return rs, nil
}
