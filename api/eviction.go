package api

import (
	"cmp"
	"net/netip"
	"time"
)

// Which connection is evicted for another one. The callers hold l.mu.

// first is the one of those that may be evicted which is before all others; nil if there is none.
func (l *connections) first(may func(c *connection) bool, before func(a, b *connection) bool) (first *connection) {
	for c := range l.all {
		if may(c) && (first == nil || before(c, first)) {
			first = c
		}
	}
	return first
}

// nextAnonymous is the anonymous connection to evict, of an address if that is valid; nil if there is none. It is of
// the address with most of them; of these, one with a request under way is last, else the one that may be evicted
// soonest.
func (l *connections) nextAnonymous(address netip.Prefix) *connection {
	return l.first(func(c *connection) bool { return !c.authenticated && c.isOf(address) }, l.before)
}

// isOf reports whether c is of an address, if that is valid.
func (c *connection) isOf(address netip.Prefix) bool {
	return !address.IsValid() || c.address == address
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
func (l *connections) idlest(address netip.Prefix) *connection {
	return l.first(func(c *connection) bool {
		return c.authenticated && !c.serving && !c.idle.IsZero() && time.Since(c.idle) >= evictableIdle && c.isOf(address)
	}, func(a, b *connection) bool { return a.idle.Before(b.idle) })
}

// oldest is the connection of a party to evict first, even with a request under way; nil if there is none.
func (l *connections) oldest(party string) *connection {
	return l.first(func(c *connection) bool {
		return party != "" && c.authenticated && c.party == party
	}, func(a, b *connection) bool {
		switch {
		case a.serving != b.serving:
			return b.serving
		case a.serving:
			return a.since.Before(b.since)
		}
		return a.idle.Before(b.idle)
	})
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

// mostAuthenticated bounds the authenticated connections.
func (l *connections) mostAuthenticated() int {
	return l.most - min(max(leastAnonymous, l.most/anonymousShare), l.most/4)
}

// authenticate notes that c carried a token of party. evicted is the connection evicted for it, if any.
func (l *connections) authenticate(c *connection, party string) (evicted *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.trusted {
		party = ""
	}
	if _, in := l.all[c]; !in || c.authenticated && c.party == party {
		return nil
	}
	switch {
	case party != "" && l.of[party] >= int64(max(leastOfAddress, l.most/partyShare)):
		evicted = l.oldest(party)
	case !c.authenticated && l.authenticated >= l.mostAuthenticated():
		if evicted = cmp.Or(l.idlest(netip.Prefix{}), l.oldest(l.largest(l.of[party]+1))); evicted == nil {
			return nil
		}
	}
	if evicted != nil {
		l.leave(evicted)
	}
	l.uncount(c)
	l.count(c, party)
	return evicted
}

// count and uncount keep count of authenticated connections, and of anonymous ones. The caller holds l.mu.
func (l *connections) count(c *connection, party string) {
	c.authenticated, c.party = true, party
	l.authenticated++
	if party != "" {
		l.of.add(party, 1)
	}
	l.anonymous.add(c.address, -1)
}

func (l *connections) uncount(c *connection) {
	if !c.authenticated {
		return
	}
	c.authenticated = false
	l.authenticated--
	if c.party != "" {
		l.of.add(c.party, -1)
	}
	l.anonymous.add(c.address, 1)
}
