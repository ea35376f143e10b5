package api

import (
	"net/netip"
	"sync"
	"time"
)

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
