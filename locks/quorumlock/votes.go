package quorumlock

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// try is one want, with the votes of its present ballot.
type try struct {
	candidacy
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
func (t *try) count(s *session, rs replies) outcome {
	var doubt mask
	t.yes, t.refused = 0, 0
	for i, r := range rs {
		switch {
		case r.unsent():
		case r.err != nil:
			doubt = doubt.with(i)
		case !r.said("ok"):
		case r.answer[t.place] == "1":
			t.yes = t.yes.with(i)
		default:
			t.refused = t.refused.with(i)
			t.hear(s, i, r.answer[t.place])
		}
	}
	t.doubt |= doubt
	switch {
	case s.enough(t.yes):
		return hasMajority
	case s.enough(t.yes | doubt):
		return mayHaveMajority
	case t.holder != nil:
		return isBusy
	case t.answers() >= s.majority:
		return isSplit
	}
	return hasNoMajority
}

// answers is how many servers voted or refused.
func (t *try) answers() int { return (t.yes | t.refused).count() }

// decided reports whether more answers would not change the outcome.
func (t *try) decided(s *session, rs replies) bool {
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
	return s.enough(yes) || s.minority(refused)
}

// hear takes in which others have the key on a server.
func (t *try) hear(s *session, i int, answer any) {
	others, _ := answer.([]any) // or the ballot is refused
	for n := 0; n+2 < len(others); n += 3 {
		h, ok := parse(others[n], others[n+1], others[n+2])
		if !ok {
			continue
		}
		m := t.named[h.ballot]
		left := max(m.info.Remaining, h.Remaining)        // it is over once it is on each of these
		if m.by = m.by.with(i); h.Token >= m.info.Token { // a server to which the token is still to be written says 0
			m.info = h.Info
		}
		m.info.Remaining = left
		t.named[h.ballot] = m
		if s.enough(m.by) && (t.holder == nil || m.info.Token > t.holder.Token) {
			t.holder = &m.info
		}
	}
}

// mentions are the servers that named one ballot, and the most that one of them knows of it.
type mentions struct {
	by   mask
	info driver.Info
}

// named is a holding, or a vote, as a server shows it.
type named struct {
	driver.Info
	ballot string // with its session: unique
}

// parse reads a field of holders and its value, see namespace.lua, and for how many µs its session lasts.
func parse(field, value, micros any) (named, bool) {
	text := func(part any) string { t, _ := part.(string); return t }
	f, v := strings.Split(text(field), " "), strings.SplitN(text(value), "\n", 4)
	if len(f) != 4 || len(v) != 4 {
		return named{}, false
	}
	token, err := strconv.ParseInt(v[0], 10, 64)
	since, err2 := strconv.ParseInt(v[1], 10, 64)
	left, err3 := strconv.ParseInt(text(micros), 10, 64)
	return named{
		ballot: f[2] + " " + f[3],
		Info: driver.Info{
			Key: f[0], Token: driver.Token(token), Session: f[2], Owner: v[2], Meta: v[3], Shared: f[1] == sharedKind, Since: time.UnixMicro(since).UTC(),
			Remaining: time.Duration(left) * time.Microsecond,
		},
	}, err == nil && err2 == nil && err3 == nil
}
