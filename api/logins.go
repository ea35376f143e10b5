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
	mu     sync.Mutex
	full   map[netip.Prefix]time.Time // when the bucket of an address will be full again
	swept  time.Time
	unsaid int // failures since the log heard of them
	said   time.Time
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
	key := bucketOf(from)
	full, known := l.full[key]
	if !known {
		l.makeRoom(now)
	}
	if full.Before(now) {
		full = now
	}
	full = full.Add(loginInterval)
	if over := full.Sub(now) - loginBurst*loginInterval; over > 0 {
		return over, say
	}
	l.full[key] = full
	return 0, say
}

// makeRoom forgets addresses that are no news any more, and any other one if that is not enough.
func (l *logins) makeRoom(now time.Time) {
	if l.full == nil {
		l.full = map[netip.Prefix]time.Time{}
	}
	if len(l.full) < loginAddresses {
		return
	}
	if now.Sub(l.swept) >= loginInterval {
		l.swept = now
		for key, full := range l.full {
			if !full.After(now) {
				delete(l.full, key)
			}
		}
	}
	for key := range l.full {
		if len(l.full) < loginAddresses {
			return
		}
		delete(l.full, key)
	}
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
