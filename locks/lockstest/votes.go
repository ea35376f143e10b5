package lockstest

import "github.com/anishathalye/porcupine"

// A service that decides by votes names as the holder whoever has had the votes of a majority. That one may not have heard of
// them all: then it gives them back, and is not granted. So where Harness.Votes is set a busy answer is judged only if no other
// session was asking for the key meanwhile. What was granted is judged as ever.

// question is a call that asks for a key.
type question struct {
	key     string
	session int
	busy    bool  // and this was the answer
	till    int64 // when its votes, which may have been unknown, are given back
}

// certain leaves out the busy answers that say nothing. asks reads a question from a call; nil: it is another call.
func (h *history) certain(ops []porcupine.Operation, asks func(porcupine.Operation) *question) []porcupine.Operation {
	questions := make([]*question, len(ops))
	for i, op := range ops {
		if q := asks(op); q != nil {
			if q.till = op.Return; q.till == never {
				q.till = h.ends(q.session)
			}
			questions[i] = q
		}
	}
	var judged []porcupine.Operation
	for i, op := range ops {
		if q := questions[i]; q == nil || !q.busy || !contested(ops, questions, i) {
			judged = append(judged, op)
		}
	}
	return judged
}

// contested reports whether another session asked while the question at i was.
func contested(ops []porcupine.Operation, questions []*question, i int) bool {
	for n, other := range questions {
		if other != nil && other.key == questions[i].key && other.session != questions[i].session && ops[n].Call <= ops[i].Return && other.till >= ops[i].Call {
			return true
		}
	}
	return false
}

// ends is when nothing of a session is at the service any more.
func (h *history) ends(session int) int64 {
	if t := h.sessions[session]; t != nil && t.over != 0 {
		return t.over
	}
	return never
}
