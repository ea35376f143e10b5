package quorumlock

// member is the session on one server.
//
//	                 ┌──▶ absent: the server has expired it ────────────┐
//	absent ──▶ settled ─▶ forgotten: the server has lost its data ──────┼──▶ settled, by a renewal
//	                 ├──▶ overfull: too many ballots are to be freed ───┘
//	                 └──▶ doubled: the session is settled there under another name
type member struct {
	state     state
	gen       string   // of the server's state
	number    int64    // how often it was installed there
	confirmed int64    // the tick of the last call that renewed it there
	evictions string   // how many of its keys that server has evicted
	unfreed   []ballot // that the server may still have under this number, and is to free
}

// state says whether the session is installed on a server. Calls are sent where it is settled; elsewhere the next renewal
// installs it: where it is absent only if a majority confirms that renewal, else also as long as the session may be trusted.
type state int

const (
	absent    state = iota // it was never installed there, or the server has expired it
	forgotten              // the server has lost its data
	overfull               // more ballots are to be freed there than are kept
	doubled                // it is the server of another name, and would vote twice: it is not called again
	settled
)

// mostUnfreed is how many ballots are kept to be freed on one server, about 1 MB of them.
//
// None of them can be forgotten alone, whatever its age: a renewal whose answer was lost, a commit under way, or a step back of the
// server's clock may have kept the session alive there, and the vote of a minority would hold up others for as long as it lives.
// They are forgotten together, when the session gets another number: join.lua frees all that it has under an earlier one, and the
// scripts refuse what is still under way under that. Until then nothing renews it there.
const mostUnfreed = 10_000

// renumber gives the next installation a number. What was sent under earlier ones is void then.
func (m *member) renumber() int64 {
	m.number++
	m.unfreed = nil
	return m.number
}

// freeLater notes what the server may have, and is to free.
func (m *member) freeLater(ballots ...ballot) {
	m.unfreed = append(m.unfreed, ballots...)
	if len(m.unfreed) > mostUnfreed {
		if m.state == settled {
			m.state = overfull
		}
		m.renumber() // an installation that is under way does not count, either
	}
}

// in returns the servers where the session is in a state. With mu held.
func (s *session) in(what state) (servers mask) {
	for i, m := range s.members {
		if m.state == what {
			servers = servers.with(i)
		}
	}
	return servers
}

// confirmed returns the servers that have confirmed a renewal, or a later one. With mu held.
func (s *session) confirmed(tick int64) (c mask) {
	for i, m := range s.members {
		if m.state == settled && m.confirmed >= tick {
			c = c.with(i)
		}
	}
	return c
}
