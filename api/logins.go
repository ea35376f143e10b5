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

// logins limits failed logins for each address, with a bucket each. Good tokens are never asked
// about here: whoever has one gets in, however many others fail behind the same address. The limit
// keeps guessing from costing us anything; that it leads nowhere is due to the length of secrets.
//
// The zero logins is ready.
type logins struct {
	mu      sync.Mutex
	buckets buckets[netip.Prefix]
	unsaid  int // failures since the log heard of them
	said    time.Time
}

// failed takes note of a failed login. wait > 0 says that there were too many, and how long the
// address should keep still. say > 0 is how many failures, of all addresses, the log should hear of
// now: that is seldom, however many there are.
func (l *logins) failed(from netip.Addr, now time.Time) (wait time.Duration, say int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsaid++
	if now.Sub(l.said) >= loginLogs {
		say, l.unsaid, l.said = l.unsaid, 0, now
	}
	return l.buckets.take(bucketOf(from), now, loginBurst, loginInterval, loginAddresses), say
}

// bucketOf is what one party can easily have all addresses of: an IPv6 network of 64 bits.
func bucketOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.WithZone("").Prefix(bits)
	return p
}
