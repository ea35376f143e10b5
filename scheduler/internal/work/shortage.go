package work

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

const (
	// shortageLeast and shortageMost bound how long a pool's work is left to others after a start failed for a shortage.
	// shortageMost plus shortageShown is how long a replica can be not ready after the shortage is over.
	shortageLeast = 500 * time.Millisecond
	shortageMost  = 2 * time.Second
	// shortageShown is how long after that the condition stays, unless something was started.
	shortageShown = 2 * time.Second
	// sayEvery is how often it is logged for a pool.
	sayEvery = 10 * time.Second
)

// shortages knows the pools whose work this replica could not start because descriptors, processes or
// memory ran out (abort.ErrNoRoom). Such work is handed back, as if it had never been claimed, and for a pause
// this replica claims no more of the pool.
//
//	         shortage                 the pause is over
//	free ──────────────▶ pause ─────────────────────────▶ tries again ──▶ free: an attempt was started and has ended
//	                       ▲     a shortage: a longer pause    │
//	                       └───────────────────────────────────┘
type shortages struct {
	log *slog.Logger

	mu    sync.Mutex
	pools map[string]*shortage
}

// shortage is the state of a pool after a start failed for it.
type shortage struct {
	err    error
	count  int           // starts that failed for it since the last log line
	pause  time.Duration // the last one
	until  time.Time     // nothing of the pool is claimed before
	saidAt time.Time
}

// refused notes that a start failed for a shortage.
func (s *shortages) refused(pool string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p := s.pools[pool]
	if p == nil {
		p = &shortage{}
		if s.pools == nil {
			s.pools = map[string]*shortage{}
		}
		s.pools[pool] = p
	}
	p.err = err
	p.count++
	if !now.Before(p.until) { // else its start was under way when the pause began
		if now.Sub(p.until) > shortageMost {
			p.pause = 0 // that shortage is over
		}
		p.pause = min(max(2*p.pause, shortageLeast), shortageMost)
		p.until = now.Add(p.pause*3/4 + rand.N(p.pause/2))
	}
	if now.Sub(p.saidAt) >= sayEvery {
		s.log.Warn("tasks handed back: they cannot be started on this replica", "pool", pool, "tasks", p.count, "error", err)
		p.count, p.saidAt = 0, now
	}
}

// worked notes that an attempt of a pool was started and has ended. A pause goes on, as other starts failed
// since, but the next one is short: what that attempt used is free.
func (s *shortages) worked(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.pools[pool]; {
	case p == nil:
	case time.Now().Before(p.until):
		p.pause = 0
	default:
		delete(s.pools, pool)
	}
}

// closed reports whether work of a pool is left to others for now.
func (s *shortages) closed(pool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[pool]
	return p != nil && time.Now().Before(p.until)
}

// condition says of which pools work cannot be started here; not short: of none.
func (s *shortages) condition() (c wire.Condition, short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pools []string
	var last *shortage
	for name, p := range s.pools {
		if time.Since(p.until) > shortageShown {
			continue
		}
		pools = append(pools, name)
		if last == nil || p.until.After(last.until) {
			last = p
		}
	}
	if last == nil {
		return c, false
	}
	slices.Sort(pools)
	detail := fmt.Sprintf("tasks of %s cannot be started on this replica and are handed back: %v", strings.Join(pools, ", "), last.err)
	return wire.Condition{Name: "room", Ready: false, Detail: detail}, true
}
