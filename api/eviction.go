package api

import (
	"cmp"
	"net/netip"
	"time"
)

// Which connection is evicted for another one. The callers hold l.mu.

// nextAnonymous is the anonymous connection to evict, of an address if that is valid; nil if there is none. It is of
// the address with most of them; of these, one with a request under way is last, else the one that may be evicted
// soonest.
func (l *connections) nextAnonymous(address netip.Prefix) (first *connection) {
	for c := range l.all {
		if c.authenticated || address.IsValid() && c.address != address {
			continue
		}
		if first == nil || l.before(c, first) {
			first = c
		}
	}
	return first
}

// before reports whether a is evicted before b; both are anonymous.
func (l *connections) before(a, b *connection) bool {
	if most := cmp.Compare(l.ofAddress(a), l.ofAddress(b)); most != 0 {
		return most > 0
	}
	if a.serving != b.serving {
		return b.serving
	}
	return l.stays(a).Before(l.stays(b))
}

// ofAddress is the number of anonymous connections of c's address, c included.
func (l *connections) ofAddress(c *connection) int64 {
	if !c.address.IsValid() {
		return 1
	}
	return l.anonymous[c.address]
}

// stays is the time until which an anonymous connection keeps its place when all are taken: until it is answered, and
// shorter while it is silent and its address has others.
func (l *connections) stays(c *connection) time.Time {
	until := c.since.Add(anonymousLeast)
	if c.serving {
		return until
	}
	if !c.idle.IsZero() {
		return c.idle
	}
	if silent := c.since.Add(time.Duration(c.heard.Load()) + anonymousSilence); l.ofAddress(c) > 1 && silent.Before(until) {
		return silent
	}
	return until
}

// idlest is the authenticated connection that is idle longest, at least evictableIdle, of an address if that is valid;
// nil if there is none.
func (l *connections) idlest(address netip.Prefix) (longest *connection) {
	for c := range l.all {
		switch {
		case !c.authenticated || c.serving || c.idle.IsZero() || time.Since(c.idle) < evictableIdle:
		case address.IsValid() && c.address != address:
		case longest == nil || c.idle.Before(longest.idle):
			longest = c
		}
	}
	return longest
}

// oldest is the connection of a party to evict first, even with a request under way; nil if there is none.
func (l *connections) oldest(party string) (oldest *connection) {
	if party == "" {
		return nil
	}
	for c := range l.all {
		switch {
		case !c.authenticated || c.party != party:
		case oldest == nil, oldest.serving && !c.serving:
			oldest = c
		case oldest.serving != c.serving:
		case c.serving && c.since.Before(oldest.since), !c.serving && c.idle.Before(oldest.idle):
			oldest = c
		}
	}
	return oldest
}

// largest is the party with the most connections, if these are more than some; "" if there is none.
func (l *connections) largest(some int64) (party string) {
	for p, n := range l.of {
		if n > some {
			party, some = p, n
		}
	}
	return party
}
