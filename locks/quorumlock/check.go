package quorumlock

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

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
			every = every && (s.isMajority(yes[n]) || s.blocks(no[n]))
		}
		return every
	}
	rs := s.ask(ctx, s.everywhere(), 0, count, func(ctx context.Context, i int) ([]any, error) {
		return s.on(ctx, i, checkScript, args...)
	})
	decided := count(rs)
	if s.blocks(rs.said("lost")) {
		return nil, s.end()
	}
	if !decided {
		return nil, s.refusal(rs, "answered alike")
	}
	var gone []*tally
	s.mu.Lock()
	for n, h := range asked {
		still[at[n]] = s.isMajority(yes[n])
		if !still[at[n]] && h.freeing == 0 {
			s.book.forget(h)
			gone = append(gone, &tally{attempt: h.attempt, yes: s.everywhere(), want: driver.Want{Key: h.key}})
		}
	}
	s.mu.Unlock()
	s.giveBack(ctx, "", gone)
	return still, nil
}
