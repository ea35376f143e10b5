package api

import (
	"net/netip"
	"sync"
	"time"
)

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

const (
	loginBurst     = 10              // failed logins of one address at once
	loginInterval  = 6 * time.Second // after them, one more in this time
	loginAddresses = 4096            // that are remembered at most
	loginLogs      = 10 * time.Second
)

// logins limits failed logins per address, with one bucket each. A good token is never refused here. The limit bounds
// the cost of guessing; the length of secrets makes it hopeless.
//
// The zero logins is ready.
type logins struct {
	mu       sync.Mutex
	buckets  buckets[netip.Prefix]
	unlogged int // failures since the last line in the log
	logged   time.Time
}

// failed notes a failed login. wait > 0: too many, and how long the address should wait. log > 0: the number of
// failures, of all addresses, to log now, at most once per loginLogs.
func (l *logins) failed(from netip.Addr, now time.Time) (wait time.Duration, log int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlogged++
	if now.Sub(l.logged) >= loginLogs {
		log, l.unlogged, l.logged = l.unlogged, 0, now
	}
	return l.buckets.take(bucketOf(from), now, loginBurst, loginInterval, loginAddresses), log
}

// bucketOf is the network that one client can control: 64 bits of IPv6.
func bucketOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.WithZone("").Prefix(bits)
	return p
}
