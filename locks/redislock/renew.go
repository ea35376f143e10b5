package redislock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Renew is one script, which also looks for the mark of an eviction: see renew.lua.
func (s *session) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	asked := boottime.Now()
	s.mu.Lock()
	told := s.told
	s.mu.Unlock()
	_, answer, err := s.run(ctx, s.renew, append([]any{told}, pairs(sample)...)...)
	if err != nil {
		return false, s.failed("renew", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = asked
	if mark := answer[1].(string); mark != "" {
		s.told, evicted = mark, true
	}
	evicted = evicted || s.superseded || answer[2] == int64(1)
	s.superseded = false
	return evicted, nil
}
