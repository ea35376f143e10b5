package judge

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Two tasks with one key are open at once, or one after the other.
func TestUniqueTasks(t *testing.T) {
	row := func(id, pool, key, retryOf string) *history.Row {
		return &history.Row{ID: id, Pool: pool, Key: key, RetryOf: retryOf}
	}
	begins := func(r *history.Row) history.Change { return history.Change{Table: "tasks", After: r} }
	moves := func(r *history.Row) history.Change { return history.Change{Table: "tasks", Before: r, After: r} }
	ends := func(r *history.Row) history.Change { return history.Change{Table: "tasks", Before: r} }
	a := row("a", "unique", "k", "")
	for name, c := range map[string]struct {
		audit []history.Change
		wrong int
	}{
		"one after the other": {[]history.Change{begins(a), moves(a), ends(a), begins(row("b", "unique", "k", ""))}, 0},
		"at once":             {[]history.Change{begins(a), moves(a), begins(row("b", "unique", "k", ""))}, 1},
		"three at once":       {[]history.Change{begins(a), begins(row("b", "unique", "k", "")), begins(row("c", "unique", "k", ""))}, 2},
		"of another key":      {[]history.Change{begins(a), begins(row("b", "unique", "l", ""))}, 0},
		"of another pool":     {[]history.Change{begins(row("a", "web", "k", "")), begins(row("b", "web", "k", ""))}, 0},
		"a copy":              {[]history.Change{begins(a), begins(row("b", "unique", "k", "z")), ends(a), begins(row("c", "unique", "k", ""))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			judged := trial{h: &history.History{Audit: c.audit}, pools: map[string]history.Pool{"unique": {Name: "unique", Unique: true}, "web": {Name: "web"}}}
			judged.unique()
			if got := judged.report.Violations; len(got) != c.wrong {
				t.Errorf("%d violations, want %d: %v", len(got), c.wrong, got)
			}
		})
	}
}
