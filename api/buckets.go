package api

import "time"

// buckets are token buckets per key: burst at once, and one more per interval. At most so many keys are kept. The zero
// buckets is ready; callers serialize its use.
type buckets[K comparable] struct {
	full  map[K]time.Time // when the bucket of a key will be full again
	swept time.Time
}

// take takes one token from the bucket of key. wait > 0: it is empty for that long.
func (b *buckets[K]) take(key K, now time.Time, burst int, interval time.Duration, most int) (wait time.Duration) {
	full, known := b.full[key]
	if !known {
		b.makeRoom(now, interval, most)
	}
	if full.Before(now) {
		full = now
	}
	full = full.Add(interval)
	if over := full.Sub(now) - time.Duration(burst)*interval; over > 0 {
		return over
	}
	b.full[key] = full
	return 0
}

// makeRoom drops full buckets, and any other one if that is not enough.
func (b *buckets[K]) makeRoom(now time.Time, interval time.Duration, most int) {
	if b.full == nil {
		b.full = map[K]time.Time{}
	}
	if len(b.full) < most {
		return
	}
	if now.Sub(b.swept) >= interval {
		b.swept = now
		for key, full := range b.full {
			if !full.After(now) {
				delete(b.full, key)
			}
		}
	}
	for key := range b.full {
		if len(b.full) < most {
			return
		}
		delete(b.full, key)
	}
}
