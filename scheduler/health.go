package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// Loaded reports whether the definitions of this replica are in the store. Once they are, they stay.
func (s *Scheduler) Loaded() bool { return s.members.Loaded() }

// Health says, condition by condition, whether this replica starts new work, and why not.
func (s *Scheduler) Health() []wire.Condition {
	store, clock, draining := s.members.Conditions()
	conf := wire.Condition{Name: "configuration", Ready: true, Detail: s.drift()}
	all := []wire.Condition{store, s.locks.Condition(), clock, conf, draining}
	if p := s.store.SeenPause(); p.Is() {
		all = append(all, wire.Condition{Name: "paused", Ready: true, Detail: p.String()})
	}
	if why, known := s.pinged.last(); known && why != "" {
		all = append(all, wire.Condition{Name: "ping", Ready: true, Detail: "the monitor outside was not called in this replica's last turn: " + why})
	}
	if shortage, short := s.work.Condition(); short {
		all = append(all, shortage)
	}
	return all
}

// drift says what is left to replicas with a newer configuration, or goes by it, and which replicas have an older one than this one's, if it governs; ""
// if all have the same.
func (s *Scheduler) drift() string {
	var what []string
	if n := s.triggers.ForeignJobs(); n > 0 {
		what = append(what, fmt.Sprintf("%d jobs that this replica defines differently", n))
	}
	if left := *s.foreignPools.Load(); len(left) > 0 {
		what = append(what, fmt.Sprintf("tasks of %d pools whose handlers it does not have: %s", len(left), plan.Some(left)))
	}
	if adjusted := *s.foreignSettings.Load(); len(adjusted) > 0 {
		what = append(what, fmt.Sprintf("settings of %d pools that this replica has otherwise: %s", len(adjusted), plan.Some(adjusted)))
	}
	var all []string
	if len(what) > 0 {
		own, newer := s.configurations()
		all = append(all, "a newer configuration governs "+strings.Join(what, ", and "))
		if newer != "" {
			all = append(all, fmt.Sprintf("%s is newer than %s", newer, own))
		}
	}
	if older := s.older(); s.governs.Load() {
		for _, replica := range slices.Sorted(maps.Keys(older)) {
			all = append(all, fmt.Sprintf("replica %s has the older %s", replica, older[replica]))
		}
	}
	return strings.Join(all, "; ")
}

// Vitals is the state of this replica, without a call of the store or the lock service.
func (s *Scheduler) Vitals() wire.Vitals {
	v := s.members.Vitals()
	v.Ready, v.Backend, v.Running = true, s.locks.Name(), s.work.Running()
	v.Foreign, v.ForeignPools = s.triggers.ForeignJobs(), len(*s.foreignPools.Load())
	if why, known := s.pinged.last(); known {
		called := why == ""
		v.Pinged = &called
	}
	for _, c := range s.Health() {
		v.Ready = v.Ready && c.Ready
	}
	if s.members.Session() != nil {
		v.Stripes = len(s.triggers.Owned())
	}
	return v
}
