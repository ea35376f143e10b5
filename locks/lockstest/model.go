package lockstest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The model of one key that a history is compared with: a mutex whose holders are sessions, and a register that
// refuses older tokens. An expiry is an operation too, which may take effect at the earliest when the lease
// allows it: so a grant before that is illegal.
//
// A missing answer leaves two possible states. The search continues with both.

// call is a call about one key.
type call struct {
	key     string
	do      act
	session int          // of the call, from 1
	token   driver.Token // of release, check and write
	value   int          // of write
}

type act int

const (
	doAcquire act = iota
	doRelease
	doCheck
	doExpire // of all that the session holds; no call
	doWrite
	doRead
)

// answer is its answer.
type answer struct {
	unknown bool         // there was none
	yes     bool         // granted, still held, accepted
	token   driver.Token // granted; of a read: of the last write
	value   int          // of a read
	by      int          // of a refusal: the session that is said to hold the key, for people; 0: it is not said
}

// keyState is comparable: the checker compares states.
type keyState struct {
	holder   int          // session, 0 = free
	last     driver.Token // largest that was granted
	written  driver.Token // of the last write
	register int
}

// step returns the states that may follow; none: the answer is impossible.
func (s keyState) step(c call, a answer) []keyState {
	granted, freed, wrote := s, s, s
	granted.holder, granted.last = c.session, max(s.last, a.token)
	if s.holder == c.session && (c.do == doExpire || s.last == c.token) {
		freed.holder = 0
	}
	wrote.written, wrote.register = c.token, c.value
	possible := func(is bool, next ...keyState) []keyState {
		if !is {
			return nil
		}
		return next
	}
	switch c.do {
	case doAcquire:
		switch {
		case a.unknown && s.holder == 0:
			return []keyState{s, granted}
		case a.unknown:
			return []keyState{s}
		case a.yes:
			return possible(s.holder == 0 && a.token > s.last, granted)
		}
		return possible(s.holder != 0, s)
	case doRelease, doExpire:
		if a.unknown {
			return []keyState{s, freed}
		}
		return []keyState{freed} // releasing a key that is not held changes nothing
	case doCheck:
		return possible(a.unknown || a.yes == (s.holder == c.session && s.last == c.token), s)
	case doWrite:
		if a.unknown && c.token >= s.written {
			return []keyState{s, wrote}
		}
		if a.yes {
			return possible(c.token >= s.written, wrote)
		}
		return possible(a.unknown || c.token < s.written, s)
	default:
		return possible(a.unknown || a.token == s.written && a.value == s.register, s)
	}
}

var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) []any {
		var next []any
		for _, s := range state.(keyState).step(input.(call), output.(answer)) {
			next = append(next, s)
		}
		return next
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		return byKey(history, func(op porcupine.Operation) string { return op.Input.(call).key })
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(call), output.(answer)
		name := [...]string{"acquire", "release", "check", "expire", "write", "read"}[c.do]
		switch {
		case a.unknown:
			return fmt.Sprintf("session %d: %s %d → ?", c.session, name, c.token)
		case c.do == doRead:
			return fmt.Sprintf("read → %d by %d", a.value, a.token)
		case c.do == doWrite:
			return fmt.Sprintf("session %d: write %d by %d → %t", c.session, c.value, c.token, a.yes)
		}
		text := fmt.Sprintf("session %d: %s %d → %t %d", c.session, name, c.token, a.yes, a.token)
		if a.by != 0 {
			text += fmt.Sprintf(", held by session %d", a.by)
		}
		return text
	},
	DescribeState: func(state any) string {
		return fmt.Sprintf("%+v", state)
	},
}

// byKey parts a history: what happens to one key does not depend on the others.
func byKey(history []porcupine.Operation, key func(porcupine.Operation) string) (parts [][]porcupine.Operation) {
	keys := map[string][]porcupine.Operation{}
	for _, op := range history {
		keys[key(op)] = append(keys[key(op)], op)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, keys[key])
	}
	return parts
}

// never is the end of an operation without an answer.
const never = math.MaxInt64
