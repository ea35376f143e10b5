package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// As many due times are skipped as a client has asked for, the next ones.
func TestSkips(t *testing.T) {
	for name, c := range map[string]struct {
		script string // "ask 2" and "set 2" of a client, "skip 1" and "run" of a decision, which ends with "row 1"
		want   string // part of the first violation; empty: none
	}{
		"as it should be":           {"ask 2, set 2, skip 1, row 1, skip 1, row 0, run, row 0", ""},
		"in one row":                {"ask 3, set 3, skip 3, run, row 0", ""},
		"set again":                 {"ask 3, set 3, skip 1, row 2, ask 1, set 1, skip 1, row 0", ""},
		"taken back":                {"ask 3, set 3, ask 0, set 0, run, row 0", ""},
		"without a calendar's":      {"ask 1, set 1, calendar, skip 1, row 0", ""},
		"without an edit's":         {"ask 1, set 1, edit, row 1, skip 1, row 0", ""},
		"nobody has asked":          {"set 2", "no client asked for it"},
		"another number":            {"ask 1, set 2", "no client asked for it"},
		"skipped without a request": {"skip 1, row 0", "skipped by hand, and 0 were to be"},
		"too many":                  {"ask 1, set 1, skip 2, row 0", "skipped by hand, and 1 were to be"},
		"one runs before":           {"ask 1, set 1, run, row 1, skip 1, row 0", "decided as any other, and 1 more"},
		"forgotten":                 {"ask 2, set 2, skip 1, row 2", "and 2 are left"},
		"lost":                      {"ask 2, set 2, row 0", "no client asked for it"},
		"not written":               {"ask 2, set 2, skip 1", "its row does not have them"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{Run: history.Run{Jobs: []history.Job{{Name: "j"}}}}
			now, left := began, int64(0)
			add := func(table string, before, after *history.Row) {
				h.Audit = append(h.Audit, history.Change{Seq: int64(len(h.Audit)) + 1, At: now.UnixMicro(), Table: table, Before: before, After: after})
			}
			for step := range strings.SplitSeq(c.script, ", ") {
				what, number, _ := strings.Cut(step, " ")
				n := int64(0)
				for _, digit := range number {
					n = int64(digit - '0')
				}
				now = now.Add(time.Millisecond)
				switch what {
				case "ask":
					h.Asks = append(h.Asks, history.Ask{What: "skip", Target: "j", N: int(n), Answer: "ok", Called: now, Returned: now.Add(10 * time.Millisecond)})
				case "set", "row":
					add("jobs", &history.Row{Job: "j", SkipNext: left}, &history.Row{Job: "j", SkipNext: n})
					left = n
				default:
					code := map[string]string{"skip": codeSkip, "calendar": codeCalendar, "edit": codeEdited}[what]
					add("triggers", nil, &history.Row{Job: "j", At: now.UnixMicro(), Count: n, Code: code})
				}
				if what == "row" {
					now = now.Add(20 * time.Second)
				}
			}
			judged := newTrial(h)
			judged.report.Violations = nil
			judged.skips()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}
