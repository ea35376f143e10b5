package quorumlock

import "github.com/lockstep-scheduler/lockstep/locks/driver"

// tally counts the votes for the present ballot of one want.
type tally struct {
	attempt
	want    driver.Want
	index   int  // of the want
	place   int  // in the answers of servers
	look    bool // servers are not to vote, but to say who has the key
	again   int  // how often the same ballot was asked for
	yes     mask
	refused mask

	// named are the servers that named a ballot of another session, in any round: a ballot is not voted for again once its
	// votes were given back, so a majority has, at some time, voted for it.
	named  map[string]mentions
	holder *driver.Info // that a majority has named
}

// outcome is what the votes for one key say.
type outcome int

const (
	hasMajority     outcome = iota
	mayHaveMajority         // some answers are missing: others may see a majority
	isBusy
	isSplit
	hasNoMajority // it cannot have
)

// count counts the votes.
func (t *tally) count(s *session, rs replies) outcome {
	var unanswered mask
	t.yes, t.refused = 0, 0
	for i, r := range rs {
		switch {
		case r.unsent():
		case r.err != nil:
			unanswered = unanswered.with(i)
		case !r.said("ok"):
		case r.answer[t.place] == "1":
			t.yes = t.yes.with(i)
		default:
			t.refused = t.refused.with(i)
			t.addNamed(s, i, r.answer[t.place])
		}
	}
	t.inFlight |= unanswered
	switch {
	case s.isMajority(t.yes):
		return hasMajority
	case s.isMajority(t.yes | unanswered):
		return mayHaveMajority
	case t.holder != nil:
		return isBusy
	case t.answers() >= s.majority:
		return isSplit
	}
	return hasNoMajority
}

// answers is how many servers voted or refused.
func (t *tally) answers() int { return (t.yes | t.refused).count() }

// decided reports whether more answers would not change the outcome.
func (t *tally) decided(s *session, rs replies) bool {
	var yes, refused mask
	for i, r := range rs {
		if r.said("ok") {
			if r.answer[t.place] == "1" {
				yes = yes.with(i)
			} else {
				refused = refused.with(i)
			}
		}
	}
	return s.isMajority(yes) || s.blocks(refused)
}

// addNamed notes which others have the key on a server.
func (t *tally) addNamed(s *session, i int, answer any) {
	others, _ := answer.([]any) // or the ballot is refused
	for n := 0; n+2 < len(others); n += 3 {
		h, ok := parse(others[n], others[n+1], others[n+2])
		if !ok {
			continue
		}
		m := t.named[h.ballot]
		left := max(m.info.Remaining, h.Remaining)        // it has ended when each of these has expired it
		if m.by = m.by.with(i); h.Token >= m.info.Token { // a server to which the token is still to be written says 0
			m.info = h.Info
		}
		m.info.Remaining = left
		t.named[h.ballot] = m
		if s.isMajority(m.by) && (t.holder == nil || m.info.Token > t.holder.Token) {
			t.holder = &m.info
		}
	}
}

// mentions are the servers that named one ballot, and the most that one of them knows of it.
type mentions struct {
	by   mask
	info driver.Info
}
