package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// An audit that has lost something says so, and is judged to its end.
func TestADamagedAudit(t *testing.T) {
	claim := func(c history.Change) bool {
		return c.Table == "tasks" && c.After != nil && c.After.State == running && c.After.Job == "again"
	}
	for name, damage := range map[string]struct {
		do   func(h *history.History, first int)
		want string
	}{
		"a claim is missing, and its task runs on": {func(h *history.History, first int) {
			c := h.Audit[first]
			c.Before, c.After = c.After, new(*c.After)
			c.After.Until = c.At + 1000
			h.Audit[first] = c
		}, "was claimed with token"},
		"a claim is missing": {func(h *history.History, first int) {
			h.Audit = slices.Delete(h.Audit, first, first+1)
		}, "was claimed with token"},
		"a change of no row": {func(h *history.History, first int) {
			for _, table := range []string{"jobs", "triggers", "tasks", "done", "attempts", "sessions"} {
				h.Audit = append(h.Audit, history.Change{Seq: h.Audit[first].Seq, At: h.Audit[first].At, Table: table})
			}
		}, "6 changes of no row"},
	} {
		h := clean(1)
		first := slices.IndexFunc(h.Audit, claim)
		damage.do(h, first)
		r := Judge(h)
		if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == NotVacuous && strings.Contains(v.Text, damage.want) }) {
			t.Errorf("%s:\n%s", name, r)
		}
	}
}
