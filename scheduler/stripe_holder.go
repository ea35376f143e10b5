package scheduler

import "github.com/lockstep-scheduler/lockstep/scheduler/internal/triggers"

// StripeHolder reads the Meta of a stripe's lock: the id of the replica that holds it, and its store's Namespace, which is
// empty if the replica is of an older version, or its store has none.
func StripeHolder(meta string) (replica, store string) { return triggers.StripeHolder(meta) }
