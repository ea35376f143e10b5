package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// What is decided and started is found between the answer that everything is paused and the call that resumes it, and nowhere else.
func TestEverythingPaused(t *testing.T) {
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	us := func(s float64) int64 { return at(s).UnixMicro() }
	window := history.Window{Nemesis: "pause-everything", Kinds: []history.Kind{history.Paused}, Began: at(9), Struck: at(10), Healing: at(20), Healed: at(21), Applied: true}
	start := func(began, written float64) history.Change {
		return history.Change{Seq: 1, At: us(written), Table: "tasks", Before: &history.Row{ID: "t", State: "ready"}, After: &history.Row{ID: "t", State: running, StartedAt: us(began)}}
	}
	decision := func(decided float64, r history.Row) history.Change {
		r.Job, r.Replica, r.DecidedAt = "j", "r1", us(decided)
		return history.Change{Seq: 1, At: us(decided), Table: "triggers", After: &r}
	}
	for name, c := range map[string]struct {
		is   history.Change
		want string
	}{
		"started in it":           {start(15, 15), "started 5s after everything was paused"},
		"claimed before":          {start(9.9, 15), ""},
		"claimed at its end":      {start(19, 20.1), ""},
		"started after it":        {start(21, 21), ""},
		"decided in it":           {decision(15, history.Row{}), "decided 5s after everything was paused"},
		"decided before":          {decision(9.9, history.Row{}), ""},
		"decided after it":        {decision(21, history.Row{}), ""},
		"run by hand":             {decision(15, history.Row{Seq: 1}), ""},
		"overtaken by an edit":    {decision(15, history.Row{Code: codeEdited}), ""},
		"ended in it":             {history.Change{Seq: 1, At: us(15), Table: "triggers", Before: &history.Row{DecidedAt: us(5)}, After: &history.Row{DecidedAt: us(5), Outcome: "ran"}}, ""},
		"began, and was extended": {history.Change{Seq: 1, At: us(15), Table: "tasks", Before: &history.Row{ID: "t", State: running}, After: &history.Row{ID: "t", State: running, StartedAt: us(15)}}, ""},
	} {
		for applied, want := range map[bool]string{true: c.want, false: ""} {
			w := window
			w.Applied = applied
			judged := newTrial(&history.History{Run: history.Run{Ended: at(100)}, Windows: []history.Window{w}, Audit: []history.Change{c.is}})
			judged.report.Violations = nil
			judged.everythingPaused()
			if got := judged.report.Violations; len(got) > 1 || (len(got) == 1) != (want != "") || want != "" && (got[0].Invariant != Slots || !strings.Contains(got[0].Text, want)) {
				t.Errorf("%s, applied %t: %v, want %q", name, applied, got, want)
			}
		}
	}
}
