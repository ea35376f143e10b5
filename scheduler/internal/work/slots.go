package work

import (
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// slots counts attempts: at most total in this replica, at most its workers in each pool.
//
// Those of notifications are not among the total: a receiver that does not answer keeps them long, and they
// must delay nothing else.
type slots struct {
	mu      sync.Mutex
	free    int
	pools   map[string]int // free ones; negative while more are taken than a new plan has
	sizes   map[string]int // all of them
	waiting map[string]bool
	closed  func(pool string) bool // while true, none of the pool is free; nil: never
	freed   func(pool string)      // called, without the lock, for a pool that got fewer than it asked for
}

func newSlots(total int, p *plan.Plan, freed func(pool string)) *slots {
	s := &slots{free: total, pools: map[string]int{}, sizes: map[string]int{}, waiting: map[string]bool{}, freed: freed}
	s.resize(p)
	return s
}

// resize gives each pool the workers that it has in p; a pool that p does not have has none.
func (s *slots) resize(p *plan.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.sizes {
		if _, has := p.Pools[name]; !has {
			s.pools[name] -= s.sizes[name]
			s.sizes[name] = 0
		}
	}
	for name, pool := range p.Pools {
		s.pools[name] += pool.Workers - s.sizes[name]
		s.sizes[name] = pool.Workers
	}
}

// take takes up to n slots of pool and returns how many it got.
func (s *slots) take(pool string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := min(n, s.left(pool))
	s.pools[pool] -= got
	if counts(pool) {
		s.free -= got
	}
	if got < n {
		s.waiting[pool] = true
	}
	return got
}

// room is how many slots of pool are free now.
func (s *slots) room(pool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.left(pool)
	if room == 0 {
		s.waiting[pool] = true
	}
	return room
}

// left is how many slots of pool are free. The caller holds s.mu.
func (s *slots) left(pool string) int {
	if s.closed != nil && s.closed(pool) {
		return 0
	}
	if counts(pool) {
		return max(0, min(s.free, s.pools[pool]))
	}
	return max(0, s.pools[pool])
}

// counts reports whether attempts of pool are among the total.
func counts(pool string) bool { return pool != naming.NotificationsPool }

// give returns n slots of pool.
func (s *slots) give(pool string, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.pools[pool] += n
	if counts(pool) {
		s.free += n
	}
	pools := make([]string, 0, len(s.waiting))
	for name := range s.waiting {
		pools = append(pools, name)
	}
	clear(s.waiting)
	s.mu.Unlock()
	for _, name := range pools {
		s.freed(name)
	}
}

// inflight counts attempts, and calls that are about to make some; once it drains, it begins no more.
type inflight struct {
	mu      sync.Mutex
	n       int
	drained chan struct{} // not nil once it drains; closed when n is 0
}

func (f *inflight) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained != nil {
		return false
	}
	f.n++
	return true
}

func (f *inflight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.check()
}

// drain begins no more; the channel that it returns is closed when all have ended.
func (f *inflight) drain() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drained = make(chan struct{})
	f.check()
	return f.drained
}

func (f *inflight) check() {
	if f.drained != nil && f.n == 0 {
		close(f.drained)
	}
}
