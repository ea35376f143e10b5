package quorumlock

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
)

// open installs the session on all servers. It fails unless a majority confirms that, and if one that answers is not suitable.
func (s *session) open(ctx context.Context, d *Driver) error {
	s.mu.Lock()
	s.tick++
	tick, asked := s.tick, boottime.Now()
	for i := range s.members {
		s.members[i].number = 1
		s.nodes[i].suspect.Store(true) // so that an error says that nothing was sent
	}
	s.mu.Unlock()
	rs := s.askFor(ctx, max(openLimit, s.limit), s.everywhere(), s.limit/2, s.majorityOK, func(ctx context.Context, i int) ([]any, error) {
		return s.openAt(ctx, i, d.options)
	})
	for i, r := range rs {
		if r.err == nil {
			if err := suitable(r.answer); err != nil {
				return fmt.Errorf("%s: %w", s.nodes[i].address(), err)
			}
		}
	}
	if err := duplicate(s.nodes, rs, 2); err != nil {
		return err
	}
	if !s.majorityOK(rs) {
		return s.refusal(rs, "installed the session")
	}
	s.mu.Lock()
	rs.said("ok").each(func(i int) {
		m, now := &s.members[i], summary(rs[i].answer)
		m.state, m.gen, m.evictions, m.confirmed = settled, now.gen, now.evictions, tick
		if now.run == "" {
			d.hidesRunID.Store(true)
		}
	})
	s.renewal, s.renewed = tick, asked
	s.mu.Unlock()
	s.sync(ctx, rs, 0)
	return nil
}

// openAt installs the session on one server, and leaves the namespace's mark there.
func (s *session) openAt(ctx context.Context, i int, o Options) ([]any, error) {
	rdb := s.nodes[i].rdb
	known := true // where SCRIPT is forbidden the namespace counts as used
	if _, err := s.nodes[i].call(ctx, &s.calls, func() ([]any, error) {
		found, err := s.mark.Exists(ctx, rdb).Result()
		if err == nil {
			known = len(found) > 0 && found[0]
		}
		if err != nil && redisconn.Answered(err) {
			return nil, nil
		}
		return nil, err
	}); err != nil {
		return nil, err
	}
	answer, err := s.eval(ctx, i, openScript, s.id, s.ttl.Microseconds(), !known, o.NoGracePeriod)
	if err != nil || known || answer[0] != "ok" {
		return answer, err
	}
	// Before any vote: from now on lost data does not look like a new namespace.
	_, err = s.nodes[i].call(ctx, &s.calls, func() ([]any, error) { return nil, s.mark.Load(ctx, rdb).Err() })
	return answer, err
}
