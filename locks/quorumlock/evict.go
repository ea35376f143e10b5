package quorumlock

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

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
	rs := s.ask(ctx, whom, 0, func(rs replies) bool { return s.isMajority(rs.said("ok") | others) }, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, evictScript, s.ttl.Microseconds(), key, int64(token), by)
	})
	if !s.isMajority(rs.said("ok") | others) {
		freed := others | rs.where(func(r reply) bool {
			return r.sent() && (r.err != nil || r.said("ok") && r.answer[1] != "")
		})
		return rs, fmt.Errorf("quorumlock: evict: %w", s.partial(rs, "answered", freed))
	}
	return rs, nil
}
