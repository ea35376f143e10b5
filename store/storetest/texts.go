package storetest

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// However long its texts are, a result is taken, and so are those beside it.
func longTexts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 5)
	tasks := s.claim("work", 5)
	long := "!" + strings.Repeat("é", 1<<20) // no limit falls between two letters
	results := []ledger.Result{
		{TaskID: tasks[0].ID, Token: tasks[0].Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: long, Error: long, Output: []byte(long)},
		{TaskID: tasks[1].ID, Token: tasks[1].Token, Verdict: ledger.Again, State: jobs.StateFailed, Reason: long, Error: long, Output: []byte(long)},
		{TaskID: tasks[2].ID, Token: tasks[2].Token, Verdict: ledger.Died, State: jobs.StateLost, Reason: long, Error: long, Output: []byte(long)},
		result(tasks[3], ledger.Ended, jobs.StateSucceeded),
	}
	done := s.finish(results...)
	s.wantFinish(done, ledger.Recorded, ledger.Recorded, ledger.Recorded, ledger.Recorded)
	s.die()
	other.reap()
	late := ledger.Result{TaskID: tasks[4].ID, Token: tasks[4].Token, Verdict: ledger.Ended, State: jobs.StateFailed, Error: long}
	done = append(done, s.finish(late)...)
	s.wantFinish(done[4:], ledger.Late)

	for i, from := range []string{"{done}", "{tasks}", "{done}", "", "{done}"} {
		if from == "" {
			continue
		}
		text := b.DB.Text(t, "SELECT error FROM "+from+" WHERE id=?", tasks[i].ID)
		if !utf8.ValidString(text) || !strings.HasPrefix(long, text) || len(text) > limits.Error || len(text) < limits.Error-4 {
			t.Errorf("the error of %d has %d bytes, want the first %d", i, len(text), limits.Error)
		}
		if done[i].Task.Error != text {
			t.Errorf("the answer to %d has %d bytes of its error, the row %d", i, len(done[i].Task.Error), len(text))
		}
		if reason := b.DB.Text(t, "SELECT reason FROM "+from+" WHERE id=?", tasks[i].ID); !utf8.ValidString(reason) {
			t.Errorf("the reason of %d is cut within a letter", i)
		}
	}
	if got := b.DB.Text(t, "SELECT error FROM {attempts} WHERE task_id=?", tasks[1].ID); got != done[1].Task.Error {
		t.Errorf("the earlier attempt has %d bytes of its error", len(got))
	}

	// A reason to which another one is added.
	s.session = s.join("one")
	s.enqueue("again", 1)
	cancelled := s.claim("again", 1)[0]
	_, err := b.Store.Cancel(s.ctx(), cancelled.ID, "alice")
	must(t, err)
	died := ledger.Result{TaskID: cancelled.ID, Token: cancelled.Token, Verdict: ledger.Died, State: jobs.StateLost, Reason: long}
	answer := s.finish(died)
	s.wantFinish(answer, ledger.Recorded)
	s.wantAnswer(answer[0], jobs.StateLost)
	if reason := answer[0].Task.Reason; len(reason) > 512 || !strings.HasPrefix(reason, long[:501]) {
		t.Errorf("the reason has %d bytes: %q", len(reason), reason)
	}
	s.want("beside them", s.task(tasks[3].ID), "succeeded attempt 1 token 1 replica one: -")
	s.wantFinish(s.finish(results[0], late), ledger.Recorded, ledger.Late) // once more, after a lost answer
}

// Texts that are kept each, and together are more than one statement may have, and as much as a replica writes in a call.
func manyLongTexts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 4 << 20 / limits.Error
	s.enqueue("work", n)
	tasks := s.claim("work", n)
	if len(tasks) != n {
		t.Fatalf("claimed %d", len(tasks))
	}
	var results []ledger.Result
	for i, task := range tasks {
		r := result(task, ledger.Ended, jobs.StateFailed)
		if i >= n/2 {
			r.Verdict = ledger.Again
		}
		r.Error = strconv.Itoa(i) + strings.Repeat("'", limits.Error) // two bytes each, where they are escaped
		results = append(results, r)
	}
	for i, d := range s.finish(results...) {
		if d.Finish != ledger.Recorded {
			t.Fatalf("end %d is %s", i, d.Finish)
		}
	}
	s.wantInt(n/2, "SELECT COUNT(*) FROM {done}")
	s.wantInt(n/2, "SELECT COUNT(*) FROM {attempts}")
}

// Texts of programs are bytes: each row keeps its own as it is, and what is missing stays missing.
func binaryTexts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 4)
	tasks := s.claim("work", 4)
	one, two := 1, -2
	results := []ledger.Result{
		{Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "\xff'\\\"%_\x00", Error: "\x00\xfe\u2028'\\", ExitCode: &one},
		{Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "é", Error: "?"},
		{Verdict: ledger.Again, State: jobs.StateFailed, Reason: "\xc3", Error: "\xc3\x28", ExitCode: &two},
		{Verdict: ledger.Again, State: jobs.StateFailed, Error: "\x80"},
	}
	for i := range results {
		results[i].TaskID, results[i].Token = tasks[i].ID, tasks[i].Token
	}
	s.wantFinish(s.finish(results...), ledger.Recorded, ledger.Recorded, ledger.Recorded, ledger.Recorded)
	for i, r := range results {
		from := "{done}"
		if r.Verdict == ledger.Again {
			from = "{tasks}"
		}
		got := [3]string{
			b.DB.Text(t, "SELECT reason FROM "+from+" WHERE id=?", r.TaskID), b.DB.Text(t, "SELECT error FROM "+from+" WHERE id=?", r.TaskID),
			b.DB.Text(t, "SELECT COALESCE(exit_code, 'none') FROM "+from+" WHERE id=?", r.TaskID),
		}
		want := [3]string{r.Reason, r.Error, "none"}
		if r.ExitCode != nil {
			want[2] = strconv.Itoa(*r.ExitCode)
		}
		if got != want {
			t.Errorf("result %d is kept as %q, want %q", i, got, want)
		}
	}
}
