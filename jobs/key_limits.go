package jobs

// KeyLimits are limits of a pool for the tasks that have the same key, see [NewTask], in all replicas together. They are exact. Zero fields
// are no limit. Tasks without a key, and those of jobs, have none.
type KeyLimits struct {
	MaxRunning int  `json:",omitempty"` // attempts at once, 0 to 1,000,000
	Rate       Rate `json:",omitzero"`  // starts
	Burst      int  `json:",omitempty"` // starts at once after a pause, with a Rate; default: those of one second
}

// KindLimits are limits of a pool for the tasks of one kind, in all replicas together. They are exact. Zero fields are no limit. Tasks of jobs
// have none.
type KindLimits KeyLimits

// Order is in which order the tasks of a pool with the same key run.
type Order string

const (
	OrderNone Order = "none" // by priority and due time, and as many at once as the limits let
	// OrderKey has them run one after the other, in the order in which the store got them. Priority counts between keys alone. A task that
	// is not due, or that waits for its retry, holds up those behind it, until it has ended.
	OrderKey Order = "key"
)

// Fair shares a pool between the keys of its tasks, while it has more tasks than may run: none waits until another one has no tasks left.
// What one does not use is used by the others. Tasks without a key share as one key does.
type Fair struct {
	// Weights are how many tasks with a key start for each one with another, 1 to 1,000; keys that are not named have 1.
	Weights map[string]int
}

// ByKey reports whether the pool has limits or an order of tasks with the same key, or limits of kinds, or shares itself between keys.
func (p Pool) ByKey() bool {
	return len(p.PerKind) > 0 || p.PerKey.MaxRunning > 0 || p.PerKey.Rate != (Rate{}) || p.Order == OrderKey || p.Fair != nil
}
