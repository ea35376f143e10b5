package judge

import "slices"

// kindsOfTasks is the part of I3 about pools with a max_running by kind: of the tasks of one kind no more run than may.
func (t *trial) kindsOfTasks() {
	type ofKind struct{ pool, kind string }
	held := map[ofKind][]string{} // that run
	for _, c := range t.h.Audit {
		if c.Table != "tasks" {
			continue
		}
		r := c.After
		if r == nil {
			r = c.Before
		}
		p, k := t.pools[r.Pool], ofKind{r.Pool, r.Kind}
		most := p.PerKind[r.Kind].MaxRunning
		if most == 0 || r.Job != "" {
			continue
		}
		if c.Before != nil && c.Before.State == running && (c.After == nil || c.After.State != running) {
			held[k] = slices.DeleteFunc(held[k], func(id string) bool { return id == r.ID })
		}
		if !starting(c) {
			continue
		}
		if held[k] = append(held[k], r.ID); len(held[k]) > most {
			t.violate(Slots, "pool "+p.Name, dbTime(c.At), "%d tasks of kind %s at once, and %d may: %v", len(held[k]), r.Kind, most, held[k])
		}
	}
}
