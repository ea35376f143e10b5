package quorumlock

import (
	"context"
	"time"
)

// vote is round 1: it asks all servers for the votes of tallies. If one of the keys was contended of late, it asks one server
// first, and the others only to look where that one refuses.
func (s *session) vote(ctx context.Context, tallies []*tally) replies {
	for n, t := range tallies {
		t.place, t.look = 2+n, false
	}
	args := func() []any {
		args := []any{s.owner}
		for _, t := range tallies {
			args = append(args, t.key, t.kind, t.number, t.want.Meta, t.look)
		}
		return args
	}
	decided := func(rs replies) bool {
		for _, t := range tallies {
			if !t.decided(s, rs) {
				return false
			}
		}
		return true
	}
	ask := func(whom mask, enough func(replies) bool) replies {
		args := args()
		return s.ask(ctx, whom, 0, enough, func(ctx context.Context, i int) ([]any, error) {
			if err := s.flush(ctx, i); err != nil {
				return nil, err
			}
			return s.on(ctx, i, voteScript, args...)
		})
	}
	if !s.contended(tallies) {
		return ask(s.everywhere(), decided)
	}
	var before mask
	var first replies
	for i, n := range s.nodes {
		if n.suspect.Load() && i+1 < len(s.nodes) {
			continue
		}
		asked := ask(mask(0).with(i), allAnswers)
		if first == nil {
			first = asked
		}
		first[i], before = asked[i], before.with(i)
		if !asked[i].said("ok") {
			continue
		}
		for _, t := range tallies {
			t.look = asked[i].answer[t.place] != "1"
		}
		break
	}
	rs := ask(s.everywhere()&^before, decided)
	before.each(func(i int) { rs[i] = first[i] })
	return rs
}

// contended reports whether one of the keys was busy or split a short time ago.
func (s *session) contended(tallies []*tally) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tallies {
		if at, ok := s.book.contended[t.key]; ok && time.Since(at) < s.ttl {
			return true
		}
	}
	return false
}

// noteContended notes keys that others want, too.
func (s *session) noteContended(tallies []*tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.book.contended) > 4096 {
		clear(s.book.contended)
	}
	for _, t := range tallies {
		s.book.contended[t.key] = time.Now()
	}
}
