package api

import "cmp"

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
	case party != "" && l.of[party] >= max(leastOfAddress, l.most/partyShare):
		victim = l.oldest(party)
	case !c.known && l.known >= l.mostKnown():
		if victim = cmp.Or(l.spare(), l.oldest(l.largest(l.of[party]+1))); victim == nil {
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

// know and forget keep count of those that are known. The caller holds l.mu.
func (l *connections) know(c *connection, party string) {
	c.known, c.party = true, party
	l.known++
	if party != "" {
		l.of[party]++
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (l *connections) forget(c *connection) {
	if !c.known {
		return
	}
	c.known = false
	l.known--
	if c.party == "" {
		return
	}
	if l.of[c.party]--; l.of[c.party] == 0 {
		delete(l.of, c.party)
	}
}

// oldest is the connection of a party that goes first, whether it is served or not; nil if the party has none. The
// caller holds l.mu.
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

// largest is the party with the most connections, if these are more than some; "" if there is none. The caller holds
// l.mu.
func (l *connections) largest(some int) (party string) {
	for p, n := range l.of {
		if n > some {
			party, some = p, n
		}
	}
	return party
}
