package judge

import "slices"

// unique is the part of I6 about unique tasks: of those that clients enqueued with one key, at most one is open at a time. What an operator
// made by retry is beside them.
//
// The row of a task that ends is deleted before another one is inserted, or that transaction would have seen it; so the audit has
// them in this order.
//
// No excuses.
func (t *trial) unique() {
	type key struct{ pool, key string }
	open := map[key][]string{}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" {
			continue
		}
		r := changed(c)
		k := key{r.Pool, r.Key}
		if !t.pools[r.Pool].Unique || r.RetryOf != "" {
			continue
		}
		if c.After == nil {
			open[k] = slices.DeleteFunc(open[k], func(id string) bool { return id == r.ID })
		}
		if c.Before != nil {
			continue
		}
		if open[k] = append(open[k], r.ID); len(open[k]) > 1 {
			t.violate(Conserved, "task "+r.ID, dbTime(c.At), "in pool %s with key %s, which is unique: %s is open", r.Pool, r.Key, open[k][0])
		}
	}
}
