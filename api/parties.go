package api

import (
	"cmp"
	"net/netip"
)

// mostKnown is how many connections those that have shown a token may have together.
func (l *connections) mostKnown() int {
	return l.most - min(max(leastNewcomers, l.most/newcomerShare), l.most/4)
}

// welcome notes that a token of party came by c. victim is a connection that has to go for it, if one has.
func (l *connections) welcome(c *connection, party string) (victim *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.trusted {
		party = ""
	}
	if _, in := l.all[c]; !in || c.known && c.party == party {
		return nil
	}
	switch {
	case party != "" && l.of[party] >= int64(max(leastOfAddress, l.most/partyShare)):
		victim = l.oldest(party)
	case !c.known && l.known >= l.mostKnown():
		if victim = cmp.Or(l.spare(netip.Prefix{}), l.oldest(l.largest(l.of[party]+1))); victim == nil {
			return nil
		}
	}
	if victim != nil {
		l.leave(victim)
	}
	l.forget(c)
	l.know(c, party)
	return victim
}

// know and forget keep count of those that are known, and of strangers. The caller holds l.mu.
func (l *connections) know(c *connection, party string) {
	c.known, c.party = true, party
	l.known++
	if party != "" {
		l.of.add(party, 1)
	}
	l.strangers.add(c.address, -1)
}

func (l *connections) forget(c *connection) {
	if !c.known {
		return
	}
	c.known = false
	l.known--
	if c.party != "" {
		l.of.add(c.party, -1)
	}
	l.strangers.add(c.address, 1)
}
