// Package refusals remembers which acquisitions of a lock session were abandoned. A request that was lost may still arrive, so the
// session refuses them for one ttl (driver.Session.Abandon).
package refusals

import "time"

// List has ids that are refused for a time. It forgets them afterwards, with the next Add. The zero List refuses none. It must not be
// used by several goroutines at the same time.
type List struct {
	ends  map[string]time.Time
	order []refusal // as they were added
}

type refusal struct {
	id   string
	ends time.Time
}

// Add refuses an id from now on for d, also if it is refused already. It costs the same however many ids are refused, if d is the same
// each time.
func (l *List) Add(id string, d time.Duration) {
	now := time.Now()
	for len(l.order) > 0 && !now.Before(l.order[0].ends) {
		if old := l.order[0]; l.ends[old.id].Equal(old.ends) { // else it was added again
			delete(l.ends, old.id)
		}
		l.order = l.order[1:]
	}
	if l.ends == nil {
		l.ends = map[string]time.Time{}
	}
	end := now.Add(d)
	l.ends[id] = end
	l.order = append(l.order, refusal{id, end})
}

// Has reports whether an id is refused.
func (l *List) Has(id string) bool {
	end, is := l.ends[id]
	return is && time.Now().Before(end)
}
