package quorumlock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// enterGates keeps other calls of this session for the same keys, which are sorted, out: they would split the votes. For each key:
//
//  1. enter, if no other call is there
//  2. else wait until that leaves, and begin again
func (s *session) enterGates(ctx context.Context, keys []string) (entered []string, err error) {
	for _, key := range keys {
		for {
			s.mu.Lock()
			other, over := s.book.asking[key], s.over
			if other == nil && !over {
				s.book.asking[key] = make(chan struct{})
			}
			s.mu.Unlock()
			if over {
				return entered, driver.ErrSessionEnded
			}
			if other == nil {
				entered = append(entered, key)
				break
			}
			select {
			case <-other:
			case <-ctx.Done():
				return entered, calls.Ended(ctx)
			}
		}
	}
	return entered, nil
}

// leaveGates lets others in.
func (s *session) leaveGates(entered []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range entered {
		close(s.book.asking[key])
		delete(s.book.asking, key)
	}
}
