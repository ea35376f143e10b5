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
//  3. Install it, and what it holds, where it is not settled: a server that has lost its data, or has too much to free, gets it
//     back while the session may still be trusted, one that has expired it only if a majority has not.
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
	asking, unexpired, twice := s.in(settled), s.in(forgotten)|s.in(overfull), s.in(doubled)
	args := s.sampledArgs(sample)
	s.mu.Unlock()

	rs := s.ask(ctx, asking, s.limit/2, s.majorityOK, func(ctx context.Context, i int) ([]any, error) {
		if err := s.flush(ctx, i); err != nil {
			return nil, err
		}
		return s.on(ctx, i, s.renewing, args...)
	})
	lost, stale := rs.said("lost"), rs.said("stale")
	known := s.note(rs, tick)
	if s.blocks(lost) {
		return fail(s.end())
	}
	missing := (s.everywhere() &^ asking &^ twice) | lost | stale
	if !s.majorityOK(rs) {
		missing = unexpired | stale
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
	if !s.isMajority(confirmed) {
		return fail(s.refusal(rs, "confirmed it"))
	}
	for _, h := range s.book.granted {
		if has := h.on & confirmed; h.freeing == 0 && !s.isMajority(has) {
			return fail(fmt.Errorf("%d of %d servers have confirmed it and have %s, of which %d have to", has.count(), len(s.nodes), h.key, s.majority))
		}
	}
	if tick > s.renewal {
		s.renewal, s.renewed = tick, asked
	}
	return s.book.evicted, nil
}

// sampledArgs names the holdings to look for. With mu held.
func (s *session) sampledArgs(sample []driver.Held) []any {
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

// note notes what servers said of a renewal, and returns those that have lost no data since an earlier call.
func (s *session) note(rs replies, tick int64) (known mask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range rs {
		m := &s.members[i]
		switch {
		case r.said("stale"):
			m.state = forgotten
		case r.said("lost"):
			m.state = absent
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
