package judge

import (
	"slices"
)

// keysOfTasks is the part of I3 about pools with a max_running or an order by key: of the tasks with one key no more run than may; and
// with an order a task runs only when all that were enqueued before it have ended.
//
// The rows of the tasks of one key are inserted under the lock of its sequence, and so are in the audit as they were enqueued.
func (t *trial) keysOfTasks() {
	type key struct{ pool, key string }
	held := map[key][]string{} // that run
	open := map[key][]string{} // that have not ended, as they were enqueued
	without := func(ids []string, id string) []string {
		return slices.DeleteFunc(ids, func(other string) bool { return other == id })
	}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" {
			continue
		}
		r := c.After
		if r == nil {
			r = c.Before
		}
		p, k := t.pools[r.Pool], key{r.Pool, r.Key}
		if r.Key == "" || p.PerKey == 0 && !p.Ordered {
			continue
		}
		if c.Before == nil {
			open[k] = append(open[k], r.ID)
		}
		if c.After == nil {
			open[k] = without(open[k], r.ID)
		}
		if c.Before != nil && c.Before.State == running && (c.After == nil || c.After.State != running) {
			held[k] = without(held[k], r.ID)
		}
		if !starting(c) {
			continue
		}
		if held[k] = append(held[k], r.ID); p.PerKey > 0 && len(held[k]) > p.PerKey {
			t.violate(Slots, "pool "+p.Name, dbTime(c.At), "%d tasks with key %s at once, and %d may: %v", len(held[k]), r.Key, p.PerKey, held[k])
		}
		if p.Ordered && open[k][0] != r.ID {
			t.violate(Slots, "pool "+p.Name, dbTime(c.At), "task %s with key %s started before %s, which was enqueued first", r.ID, r.Key, open[k][0])
		}
	}
}
