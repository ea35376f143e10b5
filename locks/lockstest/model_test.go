package lockstest

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The judge is judged: histories with a bug in them must come out illegal, and those that only look
// odd must not.
func TestModel(t *testing.T) {
	type op struct {
		from, to int64
		call     call
		answer   answer
	}
	acquired := func(from, to int64, session int, token int64) op {
		return op{from, to, call{key: "a", do: doAcquire, session: session}, answer{yes: true, token: driver.Token(token)}}
	}
	busy := func(from, to int64, session int) op {
		return op{from, to, call{key: "a", do: doAcquire, session: session}, answer{}}
	}
	released := func(from, to int64, session int, token int64) op {
		return op{from, to, call{key: "a", do: doRelease, session: session, token: driver.Token(token)}, answer{yes: true}}
	}
	expired := func(from int64, session int) op {
		return op{from, never, call{key: "a", do: doExpire, session: session}, answer{yes: true}}
	}
	checked := func(from, to int64, session int, token int64, still bool) op {
		return op{from, to, call{key: "a", do: doCheck, session: session, token: driver.Token(token)}, answer{yes: still}}
	}
	wrote := func(from, to int64, session int, token int64, value int, accepted bool) op {
		return op{from, to, call{key: "a", do: doWrite, session: session, token: driver.Token(token), value: value}, answer{yes: accepted}}
	}
	read := func(from, to, token int64, value int) op {
		return op{from, to, call{key: "a", do: doRead}, answer{token: driver.Token(token), value: value}}
	}
	unknown := func(o op) op {
		o.to, o.answer = never, answer{unknown: true}
		return o
	}
	for name, c := range map[string]struct {
		history []op
		legal   bool
	}{
		"one after the other":                  {[]op{acquired(0, 1, 1, 5), released(2, 3, 1, 5), acquired(4, 5, 2, 6)}, true},
		"busy while it is held":                {[]op{acquired(0, 1, 1, 5), busy(2, 3, 2), released(4, 5, 1, 5), acquired(6, 7, 2, 6)}, true},
		"taken while the release is under way": {[]op{acquired(0, 1, 1, 5), released(2, 9, 1, 5), acquired(4, 5, 2, 6)}, true},
		"taken after the lease ended":          {[]op{acquired(0, 1, 1, 5), expired(10, 1), acquired(11, 12, 2, 6)}, true},
		"an answer that did not come, granted": {[]op{unknown(acquired(0, 1, 1, 5)), busy(2, 3, 2), expired(10, 1), acquired(11, 12, 2, 6)}, true},
		"an answer that did not come, lost":    {[]op{unknown(acquired(0, 1, 1, 5)), acquired(2, 3, 2, 6)}, true},
		"a stale write is refused":             {[]op{acquired(0, 1, 1, 5), expired(2, 1), acquired(3, 4, 2, 6), wrote(5, 6, 2, 6, 1, true), wrote(7, 8, 1, 5, 2, false)}, true},

		"what was written is read": {[]op{acquired(0, 1, 1, 5), wrote(2, 3, 1, 5, 7, true), read(4, 5, 5, 7)}, true},

		"a fresh write is refused":         {[]op{acquired(0, 1, 1, 5), wrote(2, 3, 1, 5, 7, false)}, false},
		"what was never written is read":   {[]op{acquired(0, 1, 1, 5), wrote(2, 3, 1, 5, 7, true), read(4, 5, 5, 8)}, false},
		"a write is gone again":            {[]op{acquired(0, 1, 1, 5), wrote(2, 3, 1, 5, 7, true), read(4, 5, 0, 0)}, false},
		"two holders":                      {[]op{acquired(0, 1, 1, 5), acquired(2, 3, 2, 6)}, false},
		"two at once":                      {[]op{acquired(0, 9, 1, 5), acquired(1, 8, 2, 6)}, false},
		"taken before the lease ended":     {[]op{acquired(0, 1, 1, 5), expired(10, 1), acquired(5, 6, 2, 6)}, false},
		"a token twice":                    {[]op{acquired(0, 1, 1, 5), released(2, 3, 1, 5), acquired(4, 5, 2, 5)}, false},
		"a token that goes back":           {[]op{acquired(0, 1, 1, 5), released(2, 3, 1, 5), acquired(4, 5, 2, 4)}, false},
		"busy while it is free":            {[]op{acquired(0, 1, 1, 5), released(2, 3, 1, 5), busy(4, 5, 2)}, false},
		"held after the release":           {[]op{acquired(0, 1, 1, 5), released(2, 3, 1, 5), checked(4, 5, 1, 5, true)}, false},
		"not held though it was not ended": {[]op{acquired(0, 1, 1, 5), checked(2, 3, 1, 5, false)}, false},
		"released by another session":      {[]op{acquired(0, 1, 1, 5), released(2, 3, 2, 5), acquired(4, 5, 2, 6)}, false},
		"a stale write is accepted":        {[]op{acquired(0, 1, 1, 5), expired(2, 1), acquired(3, 4, 2, 6), wrote(5, 6, 2, 6, 1, true), wrote(7, 8, 1, 5, 2, true)}, false},
		"a lost answer explains one only":  {[]op{unknown(released(2, 3, 1, 5)), acquired(0, 1, 1, 5), acquired(4, 5, 2, 6), acquired(6, 7, 3, 7)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for i, o := range c.history {
				history = append(history, porcupine.Operation{ClientId: i, Input: o.call, Output: o.answer, Call: o.from, Return: o.to})
			}
			wantLegal(t, model, history, c.legal)
		})
	}
}

// wantLegal judges a history.
func wantLegal(t *testing.T, m porcupine.NondeterministicModel, history []porcupine.Operation, legal bool) {
	t.Helper()
	want := porcupine.Illegal
	if legal {
		want = porcupine.Ok
	}
	if got := porcupine.CheckOperationsTimeout(m.ToModel(), history, 10*time.Second); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
