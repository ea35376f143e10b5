package lockstest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// Where votes decide, a busy answer is left out if another session was asking for the key meanwhile, or might have had votes of it.
func TestCertain(t *testing.T) {
	h := newHistory()
	h.session(&clientSession{number: 2, over: 100})
	h.session(&clientSession{number: 3})
	const other, unknown = "b", never
	for name, c := range map[string]struct {
		key      string // of the question beside the one that is judged
		session  int
		from, to int64
		judged   bool
	}{
		"before":              {"a", 2, 10, 39, true},
		"after":               {"a", 2, 61, 70, true},
		"meanwhile":           {"a", 2, 45, 50, false},
		"around it":           {"a", 2, 10, 90, false},
		"for another key":     {other, 2, 45, 50, true},
		"of the same session": {"a", 1, 10, unknown, true},
		"without an answer":   {"a", 2, 10, unknown, false},
		"without an answer, in a session that did not end": {"a", 3, 10, unknown, false},
	} {
		ops := []porcupine.Operation{
			{Input: question{key: "a", session: 1, busy: true}, Call: 40, Return: 60},
			{Input: question{key: c.key, session: c.session}, Call: c.from, Return: c.to},
		}
		judged := h.certain(ops, func(op porcupine.Operation) *question { q := op.Input.(question); return &q })
		if got := len(judged) == 2; got != c.judged {
			t.Errorf("a question %s: judged is %t, want %t", name, got, c.judged)
		}
	}
	ended := []porcupine.Operation{
		{Input: question{key: "a", session: 2}, Call: 10, Return: never},
		{Input: question{key: "a", session: 1, busy: true}, Call: 101, Return: 102},
	}
	if judged := h.certain(ended, func(op porcupine.Operation) *question { q := op.Input.(question); return &q }); len(judged) != 2 {
		t.Error("an answer after the end of the session that had asked is left out")
	}
}
