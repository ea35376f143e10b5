package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var progressCases = []Case{
	{"Progress/Report", reportProgress},
	{"Progress/Stale", reportStale},
	{"Progress/Cleared", progressCleared},
}

// report writes the progress of a task, and says whether it was ours.
func (s *scene) report(task jobs.Task, done float64, text string) bool {
	s.t.Helper()
	ours, err := s.Store.Report(s.ctx(), s.session, []ledger.Progress{{TaskID: task.ID, Token: task.Token, Done: done, Text: text}})
	must(s.t, err)
	return len(ours) == 1 && ours[0]
}

// wantProgress compares what the task shows; below 0: nothing.
func (s *scene) wantProgress(id string, done float64, text string) {
	s.t.Helper()
	task, _, err := s.Store.Task(s.ctx(), id)
	must(s.t, err)
	if (task.ProgressDone == nil) != (done < 0) || done >= 0 && *task.ProgressDone != done || task.ProgressText != text {
		shown := -1.0
		if task.ProgressDone != nil {
			shown = *task.ProgressDone
		}
		s.t.Errorf("the task shows %v %q, want %v %q", shown, task.ProgressText, done, text)
	}
}

// The progress of many tasks is written by one call, whatever their order, is there as it was written, and writing it again is no
// loss of the row.
func reportProgress(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 4)
	tasks := s.claim("work", 4)
	long := strings.Repeat("ü", 150) // 300 bytes
	reports := []ledger.Progress{
		{TaskID: tasks[2].ID, Token: tasks[2].Token, Done: 0.4, Text: `with ' and "`},
		{TaskID: tasks[0].ID, Token: tasks[0].Token, Done: 0, Text: ""},
		{TaskID: tasks[1].ID, Token: tasks[1].Token, Done: 1, Text: long},
	}
	for range 2 {
		ours, err := s.Store.Report(s.ctx(), s.session, slices.Clone(reports))
		must(t, err)
		if d := cmp.Diff([]bool{true, true, true}, ours); d != "" {
			t.Error(d)
		}
	}
	s.wantProgress(tasks[0].ID, 0, "")
	s.wantProgress(tasks[1].ID, 1, long[:200])
	s.wantProgress(tasks[2].ID, 0.4, `with ' and "`)
	s.wantProgress(tasks[3].ID, -1, "")
	if !s.report(tasks[2], 0.25, "") {
		t.Error("a later report is not ours")
	}
	s.wantProgress(tasks[2].ID, 0.25, "") // it may go back
	ours, err := s.Store.Report(s.ctx(), s.session, []ledger.Progress{
		{TaskID: tasks[3].ID, Token: tasks[3].Token, Done: 0.1, Text: "earlier"}, {TaskID: tasks[3].ID, Token: tasks[3].Token, Done: 0.2, Text: "later"},
	})
	must(t, err)
	if d := cmp.Diff([]bool{true, true}, ours); d != "" {
		t.Error(d)
	}
	s.wantProgress(tasks[3].ID, 0.2, "later")
	if ours, err := s.Store.Report(s.ctx(), s.session, nil); err != nil || len(ours) != 0 {
		t.Errorf("of no tasks: %v, %v", ours, err)
	}
}

// What another session, a stale token, a dead session, or the owner of a task that is pending or has ended reports changes nothing.
func reportStale(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	tasks := s.claim("work", 3)
	if !s.report(tasks[0], 0.5, "mine") {
		t.Fatal("the owner's report is not ours")
	}
	stale := tasks[0]
	stale.Token--
	other := s.second("two")
	if s.report(stale, 0.1, "stale") || other.report(tasks[0], 0.2, "another's") || s.report(jobs.Task{ID: newID(), Token: 1}, 0.3, "of none") {
		t.Error("the report of no owner is said to be ours")
	}
	ours, err := s.Store.Report(s.ctx(), s.session, []ledger.Progress{ // beside one that is not
		{TaskID: tasks[1].ID, Token: tasks[1].Token + 1, Done: 0.9, Text: "ahead"}, {TaskID: tasks[0].ID, Token: tasks[0].Token, Done: 0.6, Text: "mine"},
	})
	must(t, err)
	if d := cmp.Diff([]bool{false, true}, ours); d != "" {
		t.Error(d)
	}
	s.wantProgress(tasks[0].ID, 0.6, "mine")
	s.wantProgress(tasks[1].ID, -1, "")
	again := result(tasks[1], ledger.HandBack, "")
	s.finish(again, result(tasks[2], ledger.Ended, jobs.StateSucceeded))
	if s.report(tasks[1], 0.7, "pending") || s.report(tasks[2], 0.7, "ended") {
		t.Error("the report of a task that does not run is said to be ours")
	}
	s.wantProgress(tasks[1].ID, -1, "")
	s.wantProgress(tasks[2].ID, -1, "")
	s.die()
	if s.report(tasks[0], 0.8, "dead") {
		t.Error("the report of a dead session is said to be ours")
	}
	s.wantProgress(tasks[0].ID, 0.6, "mine")
}

// However an attempt ends, the task has no progress afterwards, and the next attempt none of the one before.
func progressCleared(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("again", 5)
	tasks := s.claim("again", 5)
	var ends []ledger.Result
	for i, end := range []ledger.Result{
		result(tasks[0], ledger.Ended, jobs.StateSucceeded), result(tasks[1], ledger.Again, jobs.StateFailed),
		result(tasks[2], ledger.HandBack, ""), result(tasks[3], ledger.Snoozed, jobs.StatePending),
	} {
		if !s.report(tasks[i], 0.5, "half") {
			t.Fatal("not ours")
		}
		s.wantProgress(tasks[i].ID, 0.5, "half")
		ends = append(ends, end)
	}
	if !s.report(tasks[4], 0.5, "half") {
		t.Fatal("not ours")
	}
	s.finish(ends...)
	other := s.second("two")
	s.die() // the last one is reaped, and runs again
	other.reap()
	for _, task := range tasks {
		s.wantProgress(task.ID, -1, "")
	}
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	running := other.claim("again", 5)
	if len(running) != 4 {
		t.Fatalf("%d tasks run again, want 4", len(running))
	}
	for _, task := range running {
		s.wantProgress(task.ID, -1, "")
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks} WHERE progress<>''")
}
