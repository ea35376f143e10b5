package api

import (
	"cmp"
	"net/netip"
	"time"
)

// Which connection goes for another one. The callers hold l.mu.

// stranger is the connection without a token that goes first, of an address if that is valid; nil if there is none.
// It is one of the address that has most of them; of these one that is being answered goes last, and else the one that
// may go soonest.
func (l *connections) stranger(address netip.Prefix) (first *connection) {
	for c := range l.all {
		if c.known || address.IsValid() && c.address != address {
			continue
		}
		if first == nil || l.before(c, first) {
			first = c
		}
	}
	return first
}

// before says whether a goes first of two strangers.
func (l *connections) before(a, b *connection) bool {
	if most := cmp.Compare(l.company(a), l.company(b)); most != 0 {
		return most > 0
	}
	if a.serving != b.serving {
		return b.serving
	}
	return l.stays(a).Before(l.stays(b))
}

// company is how many strangers there are of a stranger's address, itself included.
func (l *connections) company(c *connection) int64 {
	if !c.address.IsValid() {
		return 1
	}
	return l.strangers[c.address]
}

// stays is until when a stranger keeps its place where all are taken. One that was answered has had its say, and one that
// says nothing goes sooner where its address has other places.
func (l *connections) stays(c *connection) time.Time {
	until := c.since.Add(strangerLeast)
	if c.serving {
		return until
	}
	if !c.idle.IsZero() {
		return c.idle
	}
	if silent := c.since.Add(time.Duration(c.heard.Load()) + strangerSilence); l.company(c) > 1 && silent.Before(until) {
		return silent
	}
	return until
}

// spare is the connection that has shown a token and has been idle longest, for a while at least, of an address if that is
// valid; nil if there is none.
func (l *connections) spare(address netip.Prefix) (longest *connection) {
	for c := range l.all {
		switch {
		case !c.known || c.serving || c.idle.IsZero() || time.Since(c.idle) < spareIdle:
		case address.IsValid() && c.address != address:
		case longest == nil || c.idle.Before(longest.idle):
			longest = c
		}
	}
	return longest
}

// oldest is the connection of a party that goes first, whether it is served or not; nil if the party has none.
func (l *connections) oldest(party string) (oldest *connection) {
	if party == "" {
		return nil
	}
	for c := range l.all {
		switch {
		case !c.known || c.party != party:
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
