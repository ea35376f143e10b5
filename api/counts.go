package api

// counts is a number per key; keys at zero are removed.
type counts[K comparable] map[K]int64

// add adds n, which may be negative, to a key.
func (c counts[K]) add(key K, n int64) {
	if c[key] += n; c[key] == 0 {
		delete(c, key)
	}
}
