package sim

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// passedMost is in how many claims, one after the other, a key that may start a task is passed over at most, in a pool that keys share: of four
// keys one with weight 1 has a fifth of the starts, if another one has weight 2, and joins and rounds cost it a few.
const passedMost = 10

// sharing is what of a pool that keys share has started. By key, where that has tasks which could start: in how many claims others started.
type sharing struct {
	claim   string // the latest
	started map[string]bool
	passed  map[string]int
	ready   map[string][]string // ids of ready tasks, by key
}

// shares returns the sharing of a pool, if it is judged: all replicas can run all that is in it, so none looks at a part.
func (w *world) shares(pool string) *sharing {
	if s, known := w.sharing[pool]; known {
		return s
	}
	var s *sharing
	if w.plan.Pools[pool].Fair != nil && w.plan.Edited == nil {
		s = &sharing{started: map[string]bool{}, passed: map[string]int{}, ready: map[string][]string{}}
	}
	for _, j := range w.plan.Jobs {
		if j.Pool == pool {
			s = nil // tasks of jobs start first
		}
	}
	w.sharing[pool] = s
	return s
}

// watchShare gets each change of a task; it is as it was given if it has not gone.
func (w *world) watchShare(r memstore.Task, began, gone bool) {
	s := w.shares(r.Pool)
	if s == nil || r.Job != "" {
		return
	}
	if began && s.claim != r.ClaimID {
		w.judgeShares(r.Pool, s)
		s.claim = r.ClaimID
		clear(s.started)
	}
	if began {
		s.started[r.TaskKey] = true
	}
	s.ready[r.TaskKey] = slices.DeleteFunc(s.ready[r.TaskKey], func(id string) bool { return id == r.ID })
	if !gone && r.State == memstore.Ready && r.RunAt == r.CreatedAt && r.ExpiresAt == 0 { // whatever the clock of a replica says
		s.ready[r.TaskKey] = append(s.ready[r.TaskKey], r.ID)
	}
}

// judgeShares counts the latest claim, when another one begins.
func (w *world) judgeShares(pool string, s *sharing) {
	for key := range s.ready {
		switch {
		case len(s.started) == 0:
		case s.started[key] || !w.mayStart(pool, key, s.ready[key]):
			s.passed[key] = 0
		default:
			s.passed[key]++
			w.counted["keys passed over"]++
			if n := s.passed[key]; n > passedMost {
				w.violate(s.ready[key][0], "key %q of pool %s, which has tasks that may start, was passed over in %d claims", key, pool, n)
				s.passed[key] = 0
			}
		}
	}
}

// mayStart reports whether a task of a key may start, of those that are ready, as far as the others of the key are concerned. Where a rate says
// that, it is not known.
func (w *world) mayStart(pool, key string, ready []string) bool {
	limits := w.byKey[pool]
	if len(ready) == 0 || limits == nil || limits.limits.Rate.Interval() > 0 {
		return false
	}
	if key == "" {
		return true
	}
	k := keyOf{pool, key}
	if limits.ordered {
		return slices.Contains(ready, w.withKey[k][0])
	}
	return limits.limits.MaxRunning == 0 || len(w.inKey[k]) < limits.limits.MaxRunning
}
