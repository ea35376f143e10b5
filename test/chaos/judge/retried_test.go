package judge

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// An ended task may be said to be retried; its end does not change with that.
func TestRetriedTasks(t *testing.T) {
	row := func(state, retriedAs string) *history.Row {
		return &history.Row{ID: "a", State: state, Token: 3, RetriedAs: retriedAs}
	}
	for name, c := range map[string]struct {
		before, after *history.Row
		fine          bool
	}{
		"retried":                 {row("failed", ""), row("failed", "b"), true},
		"and again":               {row("failed", "b"), row("failed", "c"), true},
		"with another end":        {row("failed", ""), row("succeeded", "b"), false},
		"nothing is written":      {row("failed", ""), row("failed", ""), false},
		"the retry is taken back": {row("failed", "b"), row("failed", ""), false},
	} {
		if why := doneMove(history.Change{Table: "done", Before: c.before, After: c.after}, map[string]int{}); (why == "") != c.fine {
			t.Errorf("%s: %q", name, why)
		}
	}
}
