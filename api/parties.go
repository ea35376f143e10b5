package api

import (
	"cmp"
	"net/netip"
)

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
