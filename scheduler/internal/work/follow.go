package work

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// goBy has the feeder claim as g says, and forget which jobs could not be run: this replica may govern them again.
func (f *feeder) goBy(g plan.Governing) {
	f.mu.Lock()
	other := f.governs.Hash != g.Hash
	if !f.governs.Equal(g) || len(f.skipJobs) > 0 { // else the position behind the passed tasks holds
		f.governs = g
		f.forget()
	}
	f.mu.Unlock()
	if other {
		wake.Send(f.wake)
	}
}

// governed is the definition that the feeder follows now.
func (f *feeder) governed() plan.Governing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.governs
}

// Runs reports whether this replica takes tasks of the kind in the pool by the pool's handler. It does not if a newer
// configuration governs and has the handler otherwise, as far as this replica has learned, nor while it drains.
func (s *Executor) Runs(pool, kind string) bool {
	f, known := s.feeders[pool]
	if !known || s.member.Draining() {
		return false
	}
	return slices.Contains(f.governed().KindsOf(f.pool), kind)
}
