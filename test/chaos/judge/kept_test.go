package judge

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// The second attempt of a task ends, the third is handed back before it began, and the task is cancelled while it
// waits: it has the number of the second and the token of the third.
func TestOutputOfATaskCancelledWhileItWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		said  string
		ended history.Row
		wrong int
	}{
		{"of the attempt before", "token 4\n", history.Row{ID: "a", Attempt: 2, Token: 5, State: "cancelled"}, 0},
		{"of the one that was handed back", "token 5\n", history.Row{ID: "a", Attempt: 2, Token: 5, State: "cancelled"}, 1},
		{"of one that ran", "token 4\n", history.Row{ID: "a", Attempt: 2, Token: 5, State: "cancelled", StartedAt: 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history.History{Run: history.Run{Format: 2}, Audit: []history.Change{
				{Table: "attempts", After: &history.Row{TaskID: "a", Attempt: 2, Token: 4, State: "lost", StartedAt: 1}},
				{Table: "outputs", After: &history.Row{TaskID: "a", Attempt: 2, Output: c.said}},
				{Table: "done", After: &c.ended},
			}}
			judged := trial{h: h, run: h.Run}
			judged.outputs()
			if got := judged.report.Violations; len(got) != c.wrong {
				t.Errorf("%d violations, want %d: %v", len(got), c.wrong, got)
			}
		})
	}
}

// What had arrived of a lost attempt is replaced by its own late output, once; no other output changes.
func TestOutputOfALostAttempt(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		wrong               int
	}{
		{"what had arrived, by the whole", "token 4\nso far" + arrived, "token 4\nso far, and more", 0},
		{"what had arrived, by another's", "token 4\nso far" + arrived, "token 5\nanother's", 1},
		{"what had arrived, again", "token 4\nso far" + arrived, "token 4\nso far" + arrived, 1},
		{"a whole one", "token 4\nall", "token 4\nall, and more", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := &history.Row{TaskID: "a", Attempt: 1, Output: c.before}, &history.Row{TaskID: "a", Attempt: 1, Output: c.after}
			h := &history.History{Run: history.Run{Format: 2}, Audit: []history.Change{
				{Table: "outputs", After: before}, {Table: "done", After: &history.Row{ID: "a", Attempt: 1, Token: 4, State: "lost", StartedAt: 1}},
				{Table: "outputs", Before: before, After: after},
			}}
			judged := trial{h: h, run: h.Run}
			judged.outputs()
			if got := judged.report.Violations; len(got) != c.wrong {
				t.Errorf("%d violations, want %d: %v", len(got), c.wrong, got)
			}
		})
	}
}
