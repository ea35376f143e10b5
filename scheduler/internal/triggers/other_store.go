package triggers

import (
	"context"
	"strings"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// Two stores must not share the names of their locks: the replicas of each would find stripes busy, and decide due times
// late, by the rows alone. So the lock of a stripe says which store it is for.

const ofStore = " of store "

// StripeHolder reads the Meta of a stripe's lock: the id of the replica that holds it, and its store's Namespace, which is
// empty if the replica is of an older version, or its store has none.
func StripeHolder(meta string) (replica, store string) {
	if i := strings.LastIndex(meta, ofStore); i >= 0 {
		return meta[:i], meta[i+len(ofStore):]
	}
	return meta, ""
}

// stripeMeta is the Meta of this replica's stripes. It is of balance alone.
func (t *Triggers) stripeMeta(ctx context.Context) string {
	if t.storeID == "" {
		t.storeID, _ = t.store.Namespace(ctx) // the next call asks again
	}
	if t.storeID == "" {
		return t.replica
	}
	return t.replica + ofStore + t.storeID
}

// meetOtherStore logs once that a replica of another store holds a stripe's lock that this one asked for.
func (t *Triggers) meetOtherStore(attempts []locks.Attempt) {
	for _, a := range attempts {
		if a.Holder == nil || t.metOtherStore || t.storeID == "" {
			continue
		}
		if replica, store := StripeHolder(a.Holder.Meta); store != "" && store != t.storeID {
			t.metOtherStore = true
			t.log.Warn("a replica of another store has locks of the same names, and what is due here waits up to a second for them: "+
				"give each store a namespace of its own (name in the file, locks.Options.Namespace in Go)",
				"holder", replica, "its store", store, "store", t.storeID)
		}
	}
}
