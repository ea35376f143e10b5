package judge

import (
	"maps"
	"slices"
	"strings"
)

// slots is I3: a job has no more tasks than slots, and what waits for one is served by its policy, see jobSlots; a pool has at most
// max_running tasks that run, over all replicas, when one starts (clients change it, see limits.go), and starts no more than its rate lets (rates), and of the tasks with one key no more than the limits by key and in its order (keysOfTasks), and none while it is paused (pauses); and a target that compares tokens accepts the writes of
// owners, and none of earlier ones: see lanes.
//
// No excuses. Tasks of a pool are counted in the order of the audit, in which all ends that a decision could see
// come before it.
func (t *trial) slots() {
	held := map[string]map[string]bool{} // pool → running tasks
	add := func(all map[string]map[string]bool, key, id string) int {
		if all[key] == nil {
			all[key] = map[string]bool{}
		}
		all[key][id] = true
		return len(all[key])
	}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" {
			continue
		}
		if c.Before != nil && c.Before.State == running && (c.After == nil || c.After.State != running) {
			delete(held[c.Before.Pool], c.Before.ID)
		}
		if c.After == nil {
			continue
		}
		r := *c.After
		if t.pools[r.Pool].MaxRunning > 0 && starting(c) {
			limit := t.limitsOf(r.Pool, dbTime(r.StartedAt), dbTime(c.At), t.sameClock(c.Seq)).MaxRunning
			if add(held, r.Pool, r.ID) > limit {
				t.violate(Slots, "pool "+r.Pool, dbTime(c.At), "%d tasks at once, and max_running is %d", len(held[r.Pool]), limit)
			}
		}
	}
	t.jobSlots()
	t.rates()
	t.keysOfTasks()
	t.kindsOfTasks()
	t.pauses()
	t.everythingPaused()
	t.lanes()
}

func keys[T any](set map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
