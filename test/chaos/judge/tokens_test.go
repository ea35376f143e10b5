package judge

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// The tokens of one claim have no order among them, those of two have.
func TestLineage(t *testing.T) {
	row := func(id, session string, at, token int64) history.Row {
		return history.Row{ID: id, Session: session, StartedAt: at, Token: token}
	}
	for _, c := range []struct {
		name  string
		rows  []history.Row
		wrong int
	}{
		{"one after the other", []history.Row{row("a", "s", 1, 1), row("b", "s", 2, 2)}, 0},
		{"back", []history.Row{row("a", "s", 1, 2), row("b", "s", 2, 1)}, 1},
		{"the same", []history.Row{row("a", "s", 1, 2), row("b", "s", 2, 2)}, 1},
		{"together, by their ids", []history.Row{row("a", "s", 1, 3), row("b", "s", 1, 2), row("c", "s", 1, 4), row("d", "s", 2, 5)}, 0},
		{"together, the same", []history.Row{row("a", "s", 1, 3), row("b", "s", 1, 3)}, 1},
		{"together, and before an earlier one", []history.Row{row("z", "s", 1, 2), row("a", "s", 2, 3), row("b", "s", 2, 1)}, 1},
		{"after the smaller of two", []history.Row{row("a", "s", 1, 4), row("b", "s", 1, 2), row("c", "s", 2, 3)}, 1},
		{"of two replicas at one moment", []history.Row{row("a", "s", 1, 4), row("b", "r", 1, 2)}, 1},
		{"one task twice", []history.Row{row("a", "s", 1, 4), row("a", "s", 1, 2)}, 1},
	} {
		var l lineage
		wrong := 0
		for _, r := range c.rows {
			if _, is := l.add(r); is {
				wrong++
			}
		}
		if wrong != c.wrong {
			t.Errorf("%s: %d are out of order, not %d", c.name, wrong, c.wrong)
		}
	}
}
