package judge

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// The token of a pending task grows where somebody asked to change it, and nowhere else.
func TestTokenOfPendingTask(t *testing.T) {
	for name, c := range map[string]struct {
		answer        string // to the request; "": there was none
		before, after string
		token         int64
		wrong         bool
	}{
		"asked":          {"ok", "ready", "ready", 6, false},
		"perhaps":        {"unknown", "keyed", "ready", 6, false},
		"twice":          {"ok", "waits", "waits", 7, false},
		"back":           {"ok", "ready", "ready", 4, true},
		"refused":        {"refused", "ready", "ready", 6, true},
		"not asked":      {"", "ready", "ready", 6, true},
		"handed back":    {"ok", running, "ready", 6, true},
		"of another one": {"other", "ready", "ready", 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{}
			switch c.answer {
			case "":
			case "other":
				h.Asks = []history.Ask{{What: "update", Target: "other", Answer: "ok"}}
			default:
				h.Asks = []history.Ask{{What: "update", Target: "task", Answer: c.answer}}
			}
			h.Audit = []history.Change{{Table: "tasks", Before: &history.Row{ID: "task", State: c.before, Token: 5}, After: &history.Row{ID: "task", State: c.after, Token: c.token}}}
			found := newTrial(h)
			found.ends()
			if is := len(found.report.Violations) > 0; is != c.wrong {
				t.Errorf("found %v", found.report.Violations)
			}
		})
	}
}
