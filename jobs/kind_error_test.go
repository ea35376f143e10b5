package jobs

import (
	"errors"
	"testing"
)

// Whoever enqueues what nobody can run learns what can be, and what to do.
func TestKindError(t *testing.T) {
	const force = "; if replicas that can run it follow, use force"
	many := []string{"", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	for want, e := range map[string]*KindError{
		"pool mail has no handler: give it http, command, shell, func or worker, or kinds, under pools; until then it is for jobs with handlers of their own" + force: {Pool: "mail", Kind: "letter"},
		"pool mail has handlers by kind only, and the task has no kind; it has card, letter" + force:                                                                  {Pool: "mail", Kinds: []string{"card", "letter"}},
		`pool mail has no kind "leter", did you mean "letter"? It has card, letter` + force:                                                                           {Pool: "mail", Kind: "leter", Kinds: []string{"", "card", "letter"}, Nearest: "letter"},
		`pool mail has no kind "x"; it has card, letter` + force:                                                                                                      {Pool: "mail", Kind: "x", Kinds: []string{"card", "letter"}},
		`pool mail has no kind "x"; it has none` + force:                                                                                                              {Pool: "mail", Kind: "x", Kinds: []string{""}},
		`pool mail has no kind "x"; it has a, b, c, d, e, f, g, h, i, j` + force:                                                                                      {Pool: "mail", Kind: "x", Kinds: many[:11]},
		`pool mail has no kind "x"; it has a, b, c, d, e, f, g, h, i, j and 2 more` + force:                                                                           {Pool: "mail", Kind: "x", Kinds: many},
		"pool mail has handlers by kind only, and the task has no kind; it has card":                                                                                  {Pool: "mail", Kinds: []string{"card"}, Waits: true},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !errors.Is(e, ErrNoHandler) || !errors.Is(e, ErrInvalid) {
			t.Errorf("%v is not ErrNoHandler and ErrInvalid", e)
		}
	}
	if many[0] != "" || many[1] != "a" {
		t.Errorf("the list of kinds was changed: %q", many)
	}
}
