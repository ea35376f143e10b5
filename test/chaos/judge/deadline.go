package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	promised = time.Second // no single fault of a replica or a lock server delays a trigger by more
	// stuck is when MariaDB ends the transaction of a client that froze or was disconnected in it: until then
	// its locks hold. (idle_transaction_timeout, set by store.Open and sqllock.Open.)
	stuck    = time.Second
	reaction = time.Second / 2 // of those that waited for it
	// farOff is how late a trigger may be decided and started where each answer of the store takes
	// some hundred ms: both take a dozen of them one after the other, and replicas that were late
	// are behind with the rest.
	farOff = 8 * time.Second
)

// deadline is until when what is due at a moment must have been decided, and started if there is room,
// whichever replica claimed it: one that is struck releases it. Faults that began before the deadline may move
// it; those that began after it do not.
func (t *trial) deadline(due time.Time) time.Time {
	by := due.Add(promised + t.run.Slack)
	for _, w := range t.h.Windows { // by Began
		if w.Applied && !w.Began.After(by) && !t.over(w).Before(due) {
			by = maxTime(by, t.putsOff(w, due))
		}
	}
	return by
}

// putsOff is until when a fault excuses lateness of what is due while it lasts; zero if it excuses nothing.
func (t *trial) putsOff(w history.Window, due time.Time) time.Time {
	all := t.strikesAll(w)
	switch {
	case w.Pair != "", w.Elsewhere,
		has(w, history.StoreClock, history.Paused),
		has(w, history.StoreDown, history.StoreSlow, history.ReplicaDown, history.ReplicaFrozen) && all,
		has(w, history.LockDown) && t.run.WhenDown == "wait",
		t.holdsStore(w):
		return t.over(w)
	case has(w, history.StoreFar):
		return due.Add(farOff + t.run.Slack)
	case has(w, history.StoreSlow) && !t.onSQLite(): // it comes through, and may take a row once more
		return due.Add(2*stuck + reaction + t.run.Slack)
	case has(w, history.StoreDown, history.ReplicaFrozen) && !t.onSQLite():
		return due.Add(stuck + reaction + t.run.Slack)
	}
	return time.Time{}
}

// holdsStore reports whether no replica can write while a fault lasts, as it froze a writer.
func (t *trial) holdsStore(w history.Window) bool {
	return has(w, history.StoreHeld) || t.run.Format == 0 && t.onSQLite() && has(w, history.ReplicaFrozen)
}
