package quorumlock

import (
	"context"
	"slices"
)

// join installs the session, with what it holds, on servers that do not know it, and returns the replies with theirs.
func (s *session) join(ctx context.Context, tick int64, whom mask, rs replies) replies {
	if whom == 0 {
		return rs
	}
	s.mu.Lock()
	var brought []*holding
	var args []any
	for _, h := range s.book.granted {
		if h.freeing == 0 {
			h.inFlight |= whom // if it is released meanwhile
			brought = append(brought, h)
			args = append(args, h.key, h.kind, h.number, h.value)
		}
	}
	numbers := make([]int64, len(s.members))
	whom.each(func(i int) {
		numbers[i] = s.members[i].renumber()
	})
	sure := s.isMajority(s.confirmed(tick))
	s.mu.Unlock()
	joined := s.ask(ctx, whom, s.limit/2, func(replies) bool { return sure }, func(ctx context.Context, i int) ([]any, error) {
		if err := s.flush(ctx, i); err != nil {
			return nil, err
		}
		return s.eval(ctx, i, joinScript, append([]any{s.id, s.ttl.Microseconds(), numbers[i]}, args...)...)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	rs = slices.Clone(rs)
	whom.each(func(i int) {
		rs[i] = joined[i]
		m := &s.members[i]
		if !joined[i].said("ok") || m.number != numbers[i] {
			return
		}
		now := summary(joined[i].answer)
		if other, is := s.settledAt(now); is {
			m.state, rs[i] = doubled, reply{err: sameServer(s.nodes[other], s.nodes[i])}
			twin := &s.members[other] // it was installed there under this number
			twin.state, twin.number = forgotten, max(twin.number, m.number)
			return
		}
		m.state, m.gen, m.evictions, m.confirmed = settled, now.gen, now.evictions, max(m.confirmed, tick)
		for _, h := range s.book.granted { // what it had is gone
			h.on = h.on.without(i)
		}
		s.noteTaken(i, brought, joined[i].answer[summaries:])
	})
	return rs
}

// settledAt returns the name under which the session is settled on a server, unless that hides its run_id. With mu held.
func (s *session) settledAt(at server) (name int, is bool) {
	name = slices.IndexFunc(s.members, func(m member) bool { return at.run != "" && m.state == settled && m.gen == at.gen })
	return name, name >= 0
}

// noteTaken notes which holdings a server has taken. With mu held.
func (s *session) noteTaken(i int, brought []*holding, answer []any) {
	for n, h := range brought {
		if answer[n] == "1" {
			h.on = h.on.with(i)
		}
	}
}

// repair brings keys to the servers that have confirmed a renewal and lack them.
func (s *session) repair(ctx context.Context, tick int64) {
	s.mu.Lock()
	confirmed := s.confirmed(tick)
	lacks := make([][]*holding, len(s.nodes))
	var whom mask
	sure := true
	for _, h := range s.book.granted {
		if h.freeing > 0 {
			continue
		}
		sure = sure && s.isMajority(h.on&confirmed)
		h.inFlight |= confirmed &^ h.on // if it is released meanwhile
		(confirmed &^ h.on).each(func(i int) {
			lacks[i], whom = append(lacks[i], h), whom.with(i)
		})
	}
	members := slices.Clone(s.members)
	s.mu.Unlock()
	if whom == 0 {
		return
	}
	rs := s.ask(ctx, whom, s.limit/2, func(replies) bool { return sure }, func(ctx context.Context, i int) ([]any, error) {
		args := []any{s.id, members[i].gen, members[i].number, s.ttl.Microseconds()}
		for _, h := range lacks[i] {
			args = append(args, h.key, h.kind, h.number, h.value)
		}
		return s.eval(ctx, i, putScript, args...)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	rs.said("ok").each(func(i int) {
		if s.members[i].number == members[i].number && s.members[i].gen == members[i].gen {
			s.noteTaken(i, lacks[i], rs[i].answer[1:])
		}
	})
}
