package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// recovery is how long after it was healed a fault may still show, before Run.Slack:
//
//	replica-down, -frozen     session ttl + 3 s: the others must expire it, and reap its work
//	worker-down, -frozen, -cut the same
//	helper-frozen             the same
//	paused                    5 s
//	lock-down, -slow, -clock  5 s; on ZooKeeper lock ttl + 2 s if that is longer
//	store-down, -slow, -far   5 s, or session ttl + 3 s if only some replicas were disconnected: those
//	                          may have expired
//	store-clock               session ttl + 5 s: the new time must have been seen three times
//	restarts                  drain timeout + 3 s
//	replica-clock             nothing: it is not used
//	another cell's            5 s
func (t *trial) recovery(w history.Window) time.Duration {
	var longest time.Duration
	if w.Elsewhere {
		longest = 5 * time.Second
	}
	for _, k := range w.Kinds {
		var d time.Duration
		switch k {
		case history.ReplicaDown, history.ReplicaFrozen, history.HelperFrozen, history.WorkerDown, history.WorkerFrozen, history.WorkerCut:
			d = t.run.SessionTTL + 3*time.Second
		case history.Paused:
			d = 5 * time.Second
		case history.LockDown, history.LockGone, history.LockSlow, history.LockClock:
			d = 5 * time.Second
			if t.onZooKeeper() {
				d = max(d, t.run.LockTTL+2*time.Second)
			}
		case history.StoreDown, history.StoreSlow, history.StoreFar:
			d = 5 * time.Second
			if !t.strikesAll(w) {
				d = max(d, t.run.SessionTTL+3*time.Second)
			}
		case history.StoreClock:
			d = t.run.SessionTTL + 5*time.Second
		case history.Restarts:
			d = t.run.DrainTimeout + 3*time.Second
		}
		longest = max(longest, d)
	}
	return longest + t.run.Slack
}

func (t *trial) onZooKeeper() bool { return strings.Contains(t.run.Cell, "zookeeper") }

// strikesAll reports whether a fault strikes all replicas.
func (t *trial) strikesAll(w history.Window) bool {
	for _, r := range t.run.Replicas {
		if !w.Strikes(r) {
			return false
		}
	}
	return true
}

// over is when a fault excuses nothing any more.
func (t *trial) over(w history.Window) time.Time { return w.Healed.Add(t.recovery(w)) }

// applied are the windows whose fault was seen to strike and whose time, with recovery, meets
// [from, to].
func (t *trial) applied(from, to time.Time) []history.Window {
	var all []history.Window
	for _, w := range t.h.Windows {
		if w.Applied && !w.Began.After(to) && !t.over(w).Before(from) {
			all = append(all, w)
		}
	}
	return all
}

// excused reports whether a fault of one of the kinds, striking replica (empty: any), was open in
// [from, to].
func (t *trial) excused(from, to time.Time, replica string, kinds ...history.Kind) bool {
	for _, w := range t.applied(from, to) {
		if w.Strikes(replica) && has(w, kinds...) {
			return true
		}
	}
	return false
}

// has reports whether a fault of this cell is of one of the kinds. A fault of another cell is of none: it
// excuses lateness, see putsOff and lastRed, and no loss.
func has(w history.Window, kinds ...history.Kind) bool {
	return !w.Elsewhere && slices.ContainsFunc(w.Kinds, func(k history.Kind) bool { return slices.Contains(kinds, k) })
}

// openAt names the faults that were open at a moment.
func (t *trial) openAt(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	var names []string
	for _, w := range t.applied(at, at) {
		names = append(names, windowName(w))
	}
	return strings.Join(slices.Compact(names), ", ")
}

func windowName(w history.Window) string {
	if w.Pair != "" {
		return min(w.Nemesis, w.Pair) + " + " + max(w.Nemesis, w.Pair)
	}
	return w.Nemesis
}

func (t *trial) onSQLite() bool { return strings.HasPrefix(t.run.Cell, "sqlite") }

// lockFaults are the kinds of faults in which the service that keeps the locks may grant nothing: it cannot be reached, is slow,
// has lost what it knew, or has a wrong clock. Where locks are in the store, it is the store; and a SQLite file cannot be written
// while a process is frozen that has its write lock.
func (t *trial) lockFaults() []history.Kind {
	kinds := []history.Kind{history.LockDown, history.LockGone, history.LockSlow, history.LockClock}
	if store, lock, _ := strings.Cut(t.run.Cell, "+"); store == lock {
		kinds = append(kinds, history.StoreDown, history.StoreSlow, history.StoreFar, history.StoreClock)
	}
	if t.run.Cell == "sqlite+sqlite" {
		kinds = append(kinds, history.StoreHeld, history.ReplicaFrozen)
	}
	return kinds
}
