package lockstest

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The model of one key with a queue: holders that may hold it together, and places in the order in which they were taken.
// Order is demanded only where the place of one was acknowledged before the other asked: else either may have come
// first. A grant is an operation of its own, between the request for the place and the notification; one that nobody saw is none. Readers whose turn has come
// may be granted in any order, and a place may be taken also when the key has become free meanwhile: then its grant follows.
//
// What never ends (a call without an answer, the end of a session) changes something, or comes after all that was answered: the
// search does not carry on with both.

// turnCall is a call about one key.
type turnCall struct {
	key     string
	do      turnAct
	session int
	id      int // of the acquisition
	kind    turnKind
}

type turnAct int

const (
	turnTry     turnAct = iota
	turnAsk             // in turn
	turnGrant           // of a place; no call
	turnRelease         // of what the acquisition holds, or of its place
	turnExpire          // of all of the session; no call
	turnEnd             // of the history; no call
)

// turnKind says who may hold the key together.
type turnKind struct {
	shared bool
	limit  int
}

// turnAnswer is its answer.
type turnAnswer struct {
	unknown bool
	never   bool // and it may have had no effect
	place   bool // it is of a request whose grant was notified
	unseen  bool // it is of a request whose place was given up, and may have been granted before
	queued  bool
	token   driver.Token // 0: not granted
}

// turnState is the state of a key.
type turnState struct {
	holders, queue []turnPart
	last           driver.Token // the largest that was granted
	floor          driver.Token // that of the holders before these
	rising         bool         // tokens grow with each grant, also of those who hold the key together
	over           bool         // all that was answered has been
	lost           []int        // acquisitions of requests without an answer, which the next answer must need
}

type turnPart struct {
	session, id int
	kind        turnKind
	unseen      bool // a place that may be granted without an operation
}

// admits reports whether one more may hold the key.
func (s turnState) admits(k turnKind) bool {
	return len(s.holders) == 0 || s.holders[0].kind == k && (k.shared || len(s.holders) < k.limit)
}

// free reports whether a request is granted at once.
func (s turnState) free(k turnKind) bool { return len(s.queue) == 0 && s.admits(k) }

// grant returns the state in which p holds the key; nil if the token is too small. An unknown token is 0.
func (s turnState) grant(p turnPart, token driver.Token) []turnState {
	if len(s.holders) == 0 || s.rising {
		s.floor = s.last
	}
	if token != 0 && token <= s.floor {
		return nil
	}
	s.last = max(s.last, token)
	s.holders = append(slices.Clone(s.holders), p)
	slices.SortFunc(s.holders, func(a, b turnPart) int { return a.id - b.id })
	return []turnState{s}
}

// first reports whether the turn of a place has come.
func (s turnState) first(at int) bool {
	p := s.queue[at]
	return s.admits(p.kind) && !slices.ContainsFunc(s.queue[:at], func(before turnPart) bool { return !before.kind.shared || !p.kind.shared })
}

// serve grants a place whose turn has come.
func (s turnState) serve(at int, token driver.Token) []turnState {
	p := s.queue[at]
	s.queue = slices.Delete(slices.Clone(s.queue), at, at+1)
	return s.grant(p, token)
}

// served returns the state, and those in which places have been granted that nobody saw. There are few: what waits is behind them. As
// operations these grants would be tried at each point of the history, each with and without an effect.
func (s turnState) served() []turnState {
	all := []turnState{s}
	if len(s.lost) > 0 { // they come before those requests
		return all
	}
	for n := 0; n < len(all); n++ {
		for at, p := range all[n].queue {
			if !p.unseen || !all[n].first(at) {
				continue
			}
			for _, next := range all[n].serve(at, 0) {
				if !slices.ContainsFunc(all, next.equal) {
					all = append(all, next)
				}
			}
		}
	}
	return all
}

func (s turnState) without(gone func(turnPart) bool) turnState {
	s.holders = slices.DeleteFunc(slices.Clone(s.holders), gone)
	s.queue = slices.DeleteFunc(slices.Clone(s.queue), gone)
	return s
}

// step returns the states that may follow; none: the answer is impossible.
func (s turnState) step(c turnCall, a turnAnswer) []turnState {
	switch {
	case a.never && s.over:
		return []turnState{s}
	case a.never && (c.do == turnTry || c.do == turnAsk) && !a.place:
		return s.explain(c)
	case a.never && len(s.lost) > 0:
		return nil
	case a.never:
		return slices.DeleteFunc(s.follow(c, a), s.equal)
	case !s.explains(c, a):
		return nil
	}
	s.lost = nil
	return s.follow(c, a)
}

// explain gives a request without an answer what it asked for, for the sake of the next answer, which must need it. An answer
// needs several only if they hold together up to a limit.
func (s turnState) explain(c turnCall) (next []turnState) {
	p := turnPart{session: c.session, id: c.id, kind: c.kind}
	if len(s.lost) > 0 && len(s.lost) >= c.kind.limit {
		return nil
	}
	s.lost = append(slices.Clone(s.lost), c.id)
	slices.Sort(s.lost)
	if s.free(c.kind) {
		next = s.grant(p, 0)
	}
	if c.do == turnAsk {
		s.queue = append(slices.Clone(s.queue), p)
		next = append(next, s)
	}
	return next
}

// explains reports whether the answer would be another one without any one of the lost requests.
func (s turnState) explains(c turnCall, a turnAnswer) bool {
	for _, id := range s.lost {
		others := s.without(func(p turnPart) bool { return p.id == id })
		if c.do != turnTry && (c.do != turnAsk || !a.unknown) || s.free(c.kind) || !others.free(c.kind) {
			return false
		}
	}
	return true
}

// follow is step, for what may have no effect too.
func (s turnState) follow(c turnCall, a turnAnswer) []turnState {
	p := turnPart{c.session, c.id, c.kind, a.unseen}
	free := s.free(c.kind)
	switch c.do {
	case turnTry, turnAsk:
		place := s
		place.queue = append(slices.Clone(s.queue), p)
		switch {
		case a.queued, a.place:
			return []turnState{place}
		case a.unknown && free:
			return append(s.grant(p, 0), s)
		case a.unknown && c.do == turnAsk:
			return []turnState{s, place}
		case a.unknown:
			return []turnState{s}
		case free != (a.token > 0):
			return nil
		case free:
			return s.grant(p, a.token)
		}
		return []turnState{s}
	case turnGrant:
		at := slices.Index(s.queue, p)
		switch first := at >= 0 && s.first(at); {
		case a.unknown && first:
			return append(s.serve(at, 0), s)
		case a.unknown:
			return []turnState{s}
		case !first:
			return nil
		}
		return s.serve(at, a.token)
	case turnRelease:
		freed := s.without(func(other turnPart) bool { return other.id == c.id })
		if a.unknown {
			return []turnState{s, freed}
		}
		return []turnState{freed}
	case turnExpire:
		return []turnState{s.without(func(other turnPart) bool { return other.session == c.session })}
	default:
		s.over = true
		return []turnState{s}
	}
}

// closed adds the end of the history of each key, and notes which places there were.
func closed(ops []porcupine.Operation) []porcupine.Operation {
	last, client := map[string]int64{}, 0
	notified := map[int]bool{}
	for _, op := range ops {
		if c := op.Input.(turnCall); c.do == turnGrant && op.Output.(turnAnswer).token > 0 {
			notified[c.id] = true
		}
	}
	ops = slices.Clone(ops)
	for i, op := range ops {
		a := op.Output.(turnAnswer)
		a.place = notified[op.Input.(turnCall).id]
		ops[i].Output = a
	}
	for _, op := range ops {
		key := op.Input.(turnCall).key
		last[key], client = max(last[key], op.Call), max(client, op.ClientId)
		if op.Return != never {
			last[key] = max(last[key], op.Return)
		}
	}
	for key, at := range last {
		client++
		ops = append(ops, porcupine.Operation{ClientId: client, Input: turnCall{key: key, do: turnEnd}, Output: turnAnswer{}, Call: at + 1, Return: at + 2})
	}
	return ops
}

// unseen takes out the grants that nobody saw, of places that were given up, and notes in the requests that they may have been.
func unseen(ops []porcupine.Operation) (left []porcupine.Operation) {
	gone := func(op porcupine.Operation) bool {
		a := op.Output.(turnAnswer)
		return op.Input.(turnCall).do == turnGrant && a.unknown && !a.never
	}
	ids := map[int]bool{}
	for _, op := range ops {
		if gone(op) {
			ids[op.Input.(turnCall).id] = true
		}
	}
	for _, op := range ops {
		if gone(op) {
			continue
		}
		a := op.Output.(turnAnswer)
		a.unseen = ids[op.Input.(turnCall).id]
		op.Output = a
		left = append(left, op)
	}
	return left
}

func (s turnState) equal(other turnState) bool {
	return s.over == other.over && slices.Equal(s.lost, other.lost) && s.last == other.last && s.floor == other.floor && slices.Equal(s.holders, other.holders) && slices.Equal(s.queue, other.queue)
}

var turnModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{turnState{}} },
	Step: func(state, input, output any) []any {
		var next []any
		for _, from := range state.(turnState).served() {
			for _, s := range from.step(input.(turnCall), output.(turnAnswer)) {
				next = append(next, s)
			}
		}
		return next
	},
	Equal: func(a, b any) bool { return a.(turnState).equal(b.(turnState)) },
	Hash:  func(state any) uint64 { return state.(turnState).hash() },
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		return byKey(history, func(op porcupine.Operation) string { return op.Input.(turnCall).key })
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(turnCall), output.(turnAnswer)
		name := [...]string{"try", "ask", "grant", "release", "expire", "end"}[c.do]
		text := fmt.Sprintf("session %d: %s %d", c.session, name, c.id)
		if c.kind.shared {
			text += " shared"
		} else if c.kind.limit > 1 {
			text += fmt.Sprintf(" of %d", c.kind.limit)
		}
		switch {
		case a.unknown:
			return text + " → ?"
		case a.queued:
			return text + " → queued"
		}
		return fmt.Sprintf("%s → %d", text, a.token)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}
