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
	// roomLeast and roomMost bound how long a pool's work is left to others after a start found no room. roomMost plus roomShown
	// is how long a replica can be not ready after there is room again.
	roomLeast = 500 * time.Millisecond
	roomMost  = 2 * time.Second
	// roomShown is how long after that the condition stays, unless something was started.
	roomShown = 2 * time.Second
	// sayEvery is how often it is logged for a pool.
	sayEvery = 10 * time.Second
)

// room knows the pools whose work this replica could not start because descriptors, processes or
// memory ran out (abort.ErrNoRoom). Such work is handed back, as if it had never been claimed, and for a pause
// this replica claims no more of the pool.
//
//	         no room                  the pause is over
//	free ──────────────▶ pause ─────────────────────────▶ tries again ──▶ free: an attempt was started and has ended
//	                       ▲        no room: a longer pause    │
//	                       └───────────────────────────────────┘
type room struct {
	log *slog.Logger

	mu    sync.Mutex
	pools map[string]*shortage
}

// shortage is the state of a pool after a start found no room.
type shortage struct {
	err    error
	count  int           // starts that found no room since the last log line
	pause  time.Duration // the last one
	until  time.Time     // nothing of the pool is claimed before
	saidAt time.Time
}

// refused notes that a start found no room.
func (r *room) refused(pool string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s := r.pools[pool]
	if s == nil {
		s = &shortage{}
		if r.pools == nil {
			r.pools = map[string]*shortage{}
		}
		r.pools[pool] = s
	}
	s.err = err
	s.count++
	if !now.Before(s.until) { // else its start was under way when the pause began
		if now.Sub(s.until) > roomMost {
			s.pause = 0 // that shortage is over
		}
		s.pause = min(max(2*s.pause, roomLeast), roomMost)
		s.until = now.Add(s.pause*3/4 + rand.N(s.pause/2))
	}
	if now.Sub(s.saidAt) >= sayEvery {
		r.log.Warn("tasks handed back: they cannot be started on this replica", "pool", pool, "tasks", s.count, "error", err)
		s.count, s.saidAt = 0, now
	}
}

// worked notes that an attempt of a pool was started and has ended. A pause goes on, as other starts found no room
// since, but the next one is short: what that attempt used is free.
func (r *room) worked(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.pools[pool]; {
	case s == nil:
	case time.Now().Before(s.until):
		s.pause = 0
	default:
		delete(r.pools, pool)
	}
}

// shut reports whether work of a pool is left to others for now.
func (r *room) shut(pool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pools[pool]
	return s != nil && time.Now().Before(s.until)
}

// condition says which pools have no room; not short: all have room.
func (r *room) condition() (c wire.Condition, short bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pools []string
	var last *shortage
	for name, s := range r.pools {
		if time.Since(s.until) > roomShown {
			continue
		}
		pools = append(pools, name)
		if last == nil || s.until.After(last.until) {
			last = s
		}
	}
	if last == nil {
		return c, false
	}
	slices.Sort(pools)
	detail := fmt.Sprintf("tasks of %s cannot be started on this replica and are handed back: %v", strings.Join(pools, ", "), last.err)
	return wire.Condition{Name: "room", Ready: false, Detail: detail}, true
}
