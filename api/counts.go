package api

// counts says how much each key has. Keys that have nothing are not kept, so that there are never more than what is
// counted.
type counts[K comparable] map[K]int64

// add gives a key n more, or takes them back.
func (c counts[K]) add(key K, n int64) {
	if c[key] += n; c[key] == 0 {
		delete(c, key)
	}
}
