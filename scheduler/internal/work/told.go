package work

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// toldEnd is a deadline that what watches a command was told.
type toldEnd struct {
	end    boottime.Instant
	ofLock bool // it was the end of a lease
}

// tell tells the handlers of these attempts their present deadlines.
func (e *Executor) tell(attempts []*attempt) {
	ses := e.member.Session()
	for _, a := range attempts {
		a.telling.Lock()
		bounds, last := a.bounds(ses, e.clock)
		a.bound.Move(bounds...)
		a.note(last)
		a.telling.Unlock()
	}
}

// note notes a deadline that the handler is told, of an attempt with locks. Those before the last one that may have been enforced are
// forgotten. With telling held.
func (a *attempt) note(t toldEnd) {
	if t.end.IsZero() {
		return
	}
	a.ends = append(a.ends[max(a.enforced(), 0):], t)
}

// enforced is the last of the told deadlines whose last grace has begun: what was ended since its deadline had come was ended by that
// one, also if a later one was told meanwhile. -1: there is none. With telling held.
func (a *attempt) enforced() int {
	for i, t := range slices.Backward(a.ends) {
		if t.end.Until() <= a.bound.Grace() {
			return i
		}
	}
	return -1
}

// overdueByLock reports whether an attempt that was ended since its deadline had come was ended at the end of a lease.
func (a *attempt) overdueByLock() bool {
	a.telling.Lock()
	defer a.telling.Unlock()
	i := a.enforced()
	return i >= 0 && a.ends[i].ofLock
}
