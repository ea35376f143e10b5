package scheduler

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// goBy has the feeder claim as g says, and forget which jobs could not be run: they may be ours again.
func (f *feeder) goBy(g plan.Governing) {
	f.mu.Lock()
	other := f.governs.Hash != g.Hash
	if !f.governs.Equal(g) || len(f.skipJobs) > 0 { // else the place behind what was passed holds
		f.governs = g
		f.forget()
	}
	f.mu.Unlock()
	if other {
		wake.Send(f.wake)
	}
}

// governed is by what the feeder goes now.
func (f *feeder) governed() plan.Governing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.governs
}

// Runs reports whether this replica takes tasks of the kind in the pool by the pool's handler: not if a newer
// configuration governs and has it otherwise, as far as this replica has learned of it, nor while it drains.
func (s *executor) Runs(pool, kind string) bool {
	f, known := s.feeders[pool]
	if !known || s.member.Draining() {
		return false
	}
	return slices.Contains(f.governed().KindsOf(f.pool), kind)
}
