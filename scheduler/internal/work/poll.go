package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	pollLeast = 10 * time.Millisecond
	pollFast  = 50 * time.Millisecond
	pollSlow  = 500 * time.Millisecond
)

// poll asks which pools have work and wakes their feeders, until ctx is done. It asks soon after
// it found work, backs off while there is none, and wakes exactly when the next waiting task is due. Tasks that
// this replica cannot run, in pools that it has or lacks, are no work.
func (s *Executor) poll(ctx context.Context) {
	wait := pollFast
	for wake.Wait(ctx, wait, s.nudgePoll) {
		if !s.MayBegin() || s.locks.Blocks() {
			wait = pollSlow
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		pools, next, err := s.store.Ready(cctx, s.clock.Check)
		cancel()
		if err != nil {
			s.member.StoreFailed(err)
			wait = pollSlow
			continue
		}
		wait = min(2*wait, pollSlow)
		for _, name := range pools {
			f, ours := s.feeders[name]
			if !ours {
				s.meetUnknown()
				continue
			}
			awake, work := f.eager()
			if awake {
				wake.Send(f.wake)
			}
			if work && !s.room.shut(name) {
				wait = pollFast
			}
		}
		if !next.IsZero() {
			wait = max(pollLeast, min(wait, next.Sub(s.clock.Now())))
		}
	}
}
