package quorumlock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// lockKeys excludes other calls of this session for the same keys: they would split the votes. The keys are sorted, so that calls do
// not wait for each other in a circle. For each key:
//
//  1. lock it, if no other call has it
//  2. else wait until that call unlocks it, and begin again
//
// The caller unlocks what is returned, also after an error.
func (s *session) lockKeys(ctx context.Context, keys []string) (locked []string, err error) {
	for _, key := range keys {
		for {
			s.mu.Lock()
			other, over := s.book.locked[key], s.over
			if other == nil && !over {
				s.book.locked[key] = make(chan struct{})
			}
			s.mu.Unlock()
			if over {
				return locked, driver.ErrSessionEnded
			}
			if other == nil {
				locked = append(locked, key)
				break
			}
			select {
			case <-other:
			case <-ctx.Done():
				return locked, calls.Ended(ctx)
			}
		}
	}
	return locked, nil
}

// unlockKeys unlocks what lockKeys has locked.
func (s *session) unlockKeys(locked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range locked {
		close(s.book.locked[key])
		delete(s.book.locked, key)
	}
}
