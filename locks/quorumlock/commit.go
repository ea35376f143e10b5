package quorumlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// commit is round 2: it writes a token larger than any that a majority knows to the servers that voted. What a majority confirms is granted.
func (s *session) commit(ctx context.Context, acquisition string, won []*tally, rs replies, results []driver.Result) {
	if len(won) == 0 {
		return
	}
	var voted mask
	for _, t := range won {
		voted |= t.yes
	}
	var highest int64
	voted.each(func(i int) {
		text, _ := rs[i].answer[1].(string)
		known, _ := strconv.ParseInt(text, 10, 64)
		highest = max(highest, known)
	})
	token := driver.Token(highest + 1)
	s.mu.Lock()
	s.tick++
	tick, asked := s.tick, slices.Clone(s.members)
	s.mu.Unlock()
	confirmed := make([]mask, len(won)) // the servers that have confirmed each key; counted anew with each answer
	count := func(rs replies) bool {
		clear(confirmed)
		place := make([]int, len(rs))
		every := true
		for n, t := range won {
			t.yes.each(func(i int) {
				place[i]++
				if rs[i].said("ok") && rs[i].answer[place[i]] == "1" {
					confirmed[n] = confirmed[n].with(i)
				}
			})
			every = every && s.isMajority(confirmed[n])
		}
		return every
	}
	rs = s.ask(ctx, voted, 0, count, func(ctx context.Context, i int) ([]any, error) {
		args := []any{int64(token)}
		for _, t := range won {
			if t.yes.has(i) {
				args = append(args, t.key, t.kind, t.number)
			}
		}
		return s.on(ctx, i, commitScript, args...)
	})
	count(rs)
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, unanswered := rs.said("ok"), rs.where(func(r reply) bool { return r.err != nil })
	ok.each(func(i int) { s.members[i].confirmed = max(s.members[i].confirmed, tick) })
	reliable := s.confirmed(s.renewal) // they expire the session no earlier than the last renewal says
	for i, m := range s.members {
		if m.number != asked[i].number { // the session was installed anew meanwhile, without these keys
			reliable = reliable.without(i)
		}
	}
	for n, t := range won {
		t.inFlight |= t.yes & unanswered
		if !s.isMajority(confirmed[n]&reliable) || s.over {
			s.book.undecided[request{acquisition, t.key}] = t.attempt
			results[t.index].Err = fmt.Errorf("%d of %d servers have confirmed the token of %s, of which %d have to: %w",
				confirmed[n].count(), len(s.nodes), t.key, s.majority, hideSentinels(s.refusal(rs, "answered")))
			continue
		}
		results[t.index].Token = token
		s.book.hold(&holding{
			attempt: t.attempt, acquisition: acquisition, token: token, on: confirmed[n] & reliable,
			value: valueOf(token, int64(token), s.owner, t.want.Meta),
		})
	}
}
