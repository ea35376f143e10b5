package quorumlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Renew implements driver.Session.
//
//  1. Renew the session on each server where it is settled.
//  2. If so many say that it has expired that the others are no majority, it has ended.
//  3. Install it, and what it holds, where it is not known: a server that has lost its data gets it back while the session may still
//     be trusted, one that has expired it only if a majority has not.
//  4. Bring keys to the servers that have confirmed the renewal and lack them.
//  5. It counts if a majority has confirmed it, and, for each key, a majority that has the key.
func (s *session) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	fail := func(err error) (bool, error) { return false, fmt.Errorf("quorumlock: renew: %w", err) }
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return fail(driver.ErrSessionEnded)
	}
	s.tick++
	tick, asked := s.tick, boottime.Now()
	var settled, forgot mask
	for i, m := range s.members {
		if m.settled {
			settled = settled.with(i)
		} else if m.forgot {
			forgot = forgot.with(i)
		}
	}
	args := s.sampled(sample)
	s.mu.Unlock()

	rs := s.ask(ctx, settled, s.limit/2, func(rs replies) bool { return s.enough(rs.said("ok")) }, func(ctx context.Context, i int) ([]any, error) {
		if err := s.flush(ctx, i); err != nil {
			return nil, err
		}
		return s.on(ctx, i, s.renewing, args...)
	})
	lost, stale := rs.said("lost"), rs.said("stale")
	known := s.note(rs, tick)
	if s.minority(lost) {
		return fail(s.end())
	}
	missing := (s.everywhere() &^ settled) | lost | stale
	if !s.enough(rs.said("ok")) {
		missing = forgot | stale
		s.mu.Lock()
		if s.renewed.Elapsed() >= s.ttl { // others may have been granted its keys
			missing = 0
		}
		s.mu.Unlock()
	}
	rs = s.join(ctx, tick, missing, rs)
	s.sync(ctx, rs, known)
	s.repair(ctx, tick)

	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed := s.confirmed(tick)
	if !s.enough(confirmed) {
		return fail(s.refusal(rs, "confirmed it"))
	}
	for _, h := range s.book.granted {
		if has := h.on & confirmed; h.freeing == 0 && !s.enough(has) {
			return fail(fmt.Errorf("%d of %d servers have confirmed it and have %s, of which %d have to", has.count(), len(s.nodes), h.key, s.majority))
		}
	}
	if tick > s.renewal {
		s.renewal, s.renewed = tick, asked
	}
	return s.book.evicted, nil
}

// sampled names the holdings to look for. With mu held.
func (s *session) sampled(sample []driver.Held) []any {
	var args []any
	for _, held := range sample {
		h := s.book.under[held]
		if h == nil || h.freeing > 0 {
			s.book.evicted = true
			continue
		}
		args = append(args, h.key, h.kind, h.number)
	}
	return args
}

// note takes in what servers said, and returns those whose state is that of an earlier call.
func (s *session) note(rs replies, tick int64) (known mask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range rs {
		m := &s.members[i]
		switch {
		case r.said("stale"), r.said("lost"):
			m.settled, m.forgot = false, r.said("stale")
		case r.said("ok"):
			now := summary(r.answer)
			if now.gen != m.gen { // installed anew meanwhile
				continue
			}
			known = known.with(i)
			m.confirmed = max(m.confirmed, tick)
			if now.evictions != m.evictions || slices.Contains(r.answer[summaries:], any("0")) {
				m.evictions, s.book.evicted = now.evictions, true
			}
		}
	}
	return known
}

// confirmed returns the servers that have confirmed a renewal, or a later one. With mu held.
func (s *session) confirmed(tick int64) (c mask) {
	for i, m := range s.members {
		if m.settled && m.confirmed >= tick {
			c = c.with(i)
		}
	}
	return c
}

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
			h.doubt |= whom // if it is released meanwhile
			brought = append(brought, h)
			args = append(args, h.key, h.kind, h.number, h.value)
		}
	}
	numbers := make([]int64, len(s.members))
	whom.each(func(i int) {
		s.members[i].number++
		numbers[i] = s.members[i].number
	})
	sure := s.enough(s.confirmed(tick))
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
		m.settled, m.forgot, m.gen, m.evictions, m.confirmed = true, false, now.gen, now.evictions, max(m.confirmed, tick)
		for _, h := range s.book.granted { // what it had is gone
			h.on = h.on.without(i)
		}
		s.enter(i, brought, joined[i].answer[summaries:])
	})
	return rs
}

// enter notes which holdings a server has taken. With mu held.
func (s *session) enter(i int, brought []*holding, answer []any) {
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
		sure = sure && s.enough(h.on&confirmed)
		h.doubt |= confirmed &^ h.on // if it is released meanwhile
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
			s.enter(i, lacks[i], rs[i].answer[1:])
		}
	})
}
