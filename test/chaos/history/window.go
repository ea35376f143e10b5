package history

import (
	"slices"
	"time"
)

// Kind is what a fault may excuse. The judge knows which promise holds under which kind.
type Kind string

const (
	ReplicaDown   Kind = "replica-down"   // its process is killed, or told to stop
	ReplicaFrozen Kind = "replica-frozen" // its process does not run, and will again
	HelperFrozen  Kind = "helper-frozen"  // and its warden too: its commands cannot be ended in time
	HelperDown    Kind = "helper-down"    // its process and the warden are killed at once: the kernel ends commands, and not their descendants
	LockDown      Kind = "lock-down"      // the lock service cannot be reached by some replica, or lost what it knew
	LockGone      Kind = "lock-gone"      // and replicas that are struck cannot reach it before it is healed
	StoreDown     Kind = "store-down"     // the database cannot be reached by some replica, or refuses writes
	StoreSlow     Kind = "store-slow"     // the database answers late, or some calls fail
	StoreFar      Kind = "store-far"      // each answer of the database comes some hundred ms late, for all replicas
	StoreHeld     Kind = "store-held"     // no replica can write: the one that is struck froze with the write lock of the SQLite file
	LockSlow      Kind = "lock-slow"
	ReplicaClock  Kind = "replica-clock" // the wall clock of a replica is wrong
	StoreClock    Kind = "store-clock"   // the wall clock of the database is wrong
	LockClock     Kind = "lock-clock"
	WorkerDown    Kind = "worker-down"   // a process that takes tasks over HTTP is killed
	WorkerFrozen  Kind = "worker-frozen" // it does not run, and will again
	WorkerCut     Kind = "worker-cut"    // it reaches no replica
	Paused        Kind = "paused"        // nothing is decided or started, as an operator has paused everything
	Restarts      Kind = "restarts"      // nothing is broken: rolling restarts, reloads, another version
)

// Window is a line of windows.jsonl, written when the fault is healed.
type Window struct {
	Nemesis  string   // its name, as in "sigstop-parent"
	Pair     string   // the other nemesis at the same time; empty: alone
	Kinds    []Kind   // what it may excuse, from Began until Healed and a recovery time later
	Replicas []string // that it strikes, or workers; empty: all replicas
	Began    time.Time
	Struck   time.Time // when the strike was done; zero in runs of before
	Healing  time.Time // when the healing began
	Healed   time.Time
	Ahead    time.Duration // of StoreClock: how far it set that clock ahead
	Applied  bool          // seen from outside: bytes held, process state, error of the server
	Evidence string        // what was seen
	Err      string        // why it could not be applied or healed
	// Elsewhere says that it is another cell's, on the same machine, which it affects as a whole. It is no
	// fault of this cell, has no kind, and excuses only lateness and missing readiness.
	Elsewhere bool
	// Spares says that running work must not be lost: a store that is down harms no session.
	Spares bool
}

// Strikes reports whether the window excuses replica (empty: any).
func (w Window) Strikes(replica string) bool {
	if replica == "" || len(w.Replicas) == 0 {
		return true
	}
	return slices.Contains(w.Replicas, replica)
}
