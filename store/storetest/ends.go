package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var endCases = []Case{
	{"Ends/Births", births},
	{"Ends/Transitions", transitions},
	{"Ends/Mixed", mixedEnds},
	{"Ends/Trigger", endOfTrigger},
	{"Ends/Before", endedBefore},
	{"Ends/Stale", staleFinish},
	{"Ends/Repeated", repeatedFinish},
	{"Ends/Retries", retries},
	{"Ends/HandBack", handBack},
	{"Ends/Snooze", snooze},
	{"Ends/Died", ownerDied},
	{"Ends/Late", lateResult},
	{"Ends/LateOfJob", lateResultOfJob},
	{"Ends/LateOfRetried", lateResultOfRetried},
	{"Ends/Moved", endMoved},
	{"Ends/Many", manyEnds},
	{"Ends/LongTexts", longTexts},
	{"Ends/ManyLongTexts", manyLongTexts},
	{"Ends/BinaryTexts", binaryTexts},
	{"Ends/Together", finishTogether},
}

func finishes(done []ledger.Finished) []ledger.Finish {
	var list []ledger.Finish
	for _, d := range done {
		list = append(list, d.Finish)
	}
	return list
}

func (s *scene) wantFinish(done []ledger.Finished, want ...ledger.Finish) {
	s.t.Helper()
	if d := cmp.Diff(want, finishes(done)); d != "" {
		s.t.Error(d)
	}
}

func (s *scene) wantEmpty(tables ...string) {
	s.t.Helper()
	for _, table := range tables {
		s.wantInt(0, "SELECT COUNT(*) FROM {"+table+"}")
	}
}

func mixedEnds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 6)
	tasks := s.claim("work", 6)
	code := 3
	results := []ledger.Result{
		{TaskID: tasks[3].ID, Token: tasks[3].Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour, Reason: "exit status 3", Error: "boom", ExitCode: &code, Output: []byte("again")},
		{TaskID: tasks[0].ID, Token: tasks[0].Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Output: []byte("fine")},
		{TaskID: tasks[5].ID, Token: tasks[5].Token - 1, Verdict: ledger.Ended, State: jobs.StateSucceeded},
		{TaskID: tasks[1].ID, Token: tasks[1].Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "exit status 3", Error: "bang", ExitCode: &code},
		{TaskID: tasks[2].ID, Token: tasks[2].Token, Verdict: ledger.Ended, State: jobs.StateCancelled, Reason: "by its handler"},
		{TaskID: tasks[4].ID, Token: tasks[4].Token, Verdict: ledger.HandBack},
		{TaskID: tasks[0].ID, Token: tasks[0].Token, Verdict: ledger.Ended, State: jobs.StateFailed},
		{TaskID: newID(), Token: 1, Verdict: ledger.Ended, State: jobs.StateSucceeded},
	}
	done := s.finish(results...)
	s.wantFinish(done, ledger.Recorded, ledger.Recorded, ledger.Fenced, ledger.Recorded, ledger.Recorded, ledger.Recorded, ledger.Fenced, ledger.Fenced)
	s.want("0", s.task(tasks[0].ID), "succeeded attempt 1 token 1 replica one: -")
	s.want("1", s.task(tasks[1].ID), "failed attempt 1 token 1 replica one: exit status 3")
	s.want("2", s.task(tasks[2].ID), "cancelled attempt 1 token 1 replica one: by its handler")
	s.want("3", s.task(tasks[3].ID), "waits attempt 1 token 1 replica -: exit status 3")
	s.want("4", s.task(tasks[4].ID), "ready attempt 0 token 1 replica -: -")
	s.want("5", s.task(tasks[5].ID), "running attempt 1 token 1 replica one: -")
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE state='failed' AND failures=1 AND error='bang' AND exit_code=3")
	s.wantInt(2, "SELECT COUNT(*) FROM {done} WHERE failures=0 AND losses=0 AND exit_code IS NULL")
	s.want("output", b.DB.Text(t, "SELECT output FROM {outputs} WHERE task_id=? AND attempt=1", tasks[0].ID), "fine")
	s.want("output", b.DB.Text(t, "SELECT output FROM {outputs} WHERE task_id=? AND attempt=1", tasks[3].ID), "again")
	s.wantInt(1, "SELECT COUNT(*) FROM {attempts}")

	s.wantInt(2, "SELECT COUNT(*) FROM {outputs}")
	s.wantInt(1, "SELECT run_at FROM {tasks} WHERE id=?", tasks[4].ID) // as before, so it keeps its place

	// The answer is what the rows say, also to what was refused as the row is another one's.
	for i, want := range map[int]jobs.State{0: jobs.StatePending, 1: jobs.StateSucceeded, 2: jobs.StateRunning, 3: jobs.StateFailed, 4: jobs.StateCancelled, 5: jobs.StatePending} {
		s.wantAnswer(done[i], want)
	}
	for range 2 {
		done = s.finish(result(tasks[0], ledger.Ended, jobs.StateFailed))
		s.wantFinish(done, ledger.Fenced)
		s.wantAnswer(done[0], jobs.StateSucceeded)
	}
	if d := cmp.Diff(ledger.Finished{TaskID: "none", Finish: ledger.Fenced, Task: &jobs.Task{ID: "none"}}, s.finish(ledger.Result{TaskID: "none"})[0]); d != "" {
		t.Error(d)
	}
	if done := s.finish(); len(done) != 0 {
		t.Errorf("of no results: %+v", done)
	}
}

// wantAnswer holds that an answer has the task as its row is, but for the payload.
func (s *scene) wantAnswer(got ledger.Finished, state jobs.State) {
	s.t.Helper()
	row, _, err := s.Store.Task(s.ctx(), got.TaskID)
	must(s.t, err)
	row.Payload, row.PayloadSize = nil, 0
	if d := cmp.Diff(row, *got.Task); d != "" || row.State != state || got.State != state {
		s.t.Errorf("the task is %s, want %s, and the answer is not what the row says: %s", row.State, state, d)
	}
}

func endOfTrigger(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true), run("b", due(1), true), run("c", due(1), true))
	must(t, err)
	one, two, three := got.Started[0], got.Started[1], got.Started[2]
	done := s.finish(
		result(one, ledger.Ended, jobs.StateSucceeded),
		ledger.Result{TaskID: two.ID, Token: two.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "exit status 1"},
		ledger.Result{TaskID: three.ID, Token: three.Token, Verdict: ledger.Again, State: jobs.StateFailed, Reason: "exit status 1"},
	)
	s.want("a", s.trigger("a", due(1), 0), "ran succeeded: -")
	s.want("b", s.trigger("b", due(1), 0), "ran failed: exit status 1")
	s.want("c", s.trigger("c", due(1), 0), "open: -")
	s.wantInt(done[0].Task.FinishedAt.UnixMicro(), "SELECT finished_at FROM {triggers} WHERE job='a'")
	s.wantInt(0, "SELECT finished_at FROM {triggers} WHERE job='c'")
}

// A stale token writes nothing.
func staleFinish(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.enqueue("default", 1)
	old := append(got.Started, s.claim("default", 1)...)
	var back []ledger.Result
	for _, task := range old {
		back = append(back, result(task, ledger.HandBack, ""))
	}
	s.finish(back...)
	for _, task := range old {
		// What was handed back is pending: handing it back once more changes nothing, and it has no end.
		s.wantFinish(s.finish(result(task, ledger.HandBack, "")), ledger.Recorded)
		for _, v := range []ledger.Verdict{ledger.Ended, ledger.Again, ledger.Died} {
			s.wantFinish(s.finish(result(task, v, jobs.StateFailed)), ledger.Fenced)
		}
		older := task
		older.Token--
		s.wantFinish(s.finish(result(older, ledger.HandBack, "")), ledger.Fenced)
		s.want("row", s.task(task.ID), "ready attempt 0 token 1 replica -: -")
	}
	held := other.claim("default", 5)
	if len(held) != 2 {
		t.Fatalf("claimed %d", len(held))
	}
	for i, state := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed} {
		for _, v := range []ledger.Verdict{ledger.Ended, ledger.Again, ledger.HandBack, ledger.Died} {
			s.wantFinish(s.finish(result(old[i], v, state)), ledger.Fenced)
			// Nor does the right token help in the wrong session.
			s.wantFinish(s.finish(result(held[i], v, state)), ledger.Fenced)
		}
		s.want("row", s.task(held[i].ID), "running attempt 1 token 2 replica two: -")
	}
	// Nor does the right session with an old token.
	for i := range held {
		stale := held[i]
		stale.Token = old[i].Token
		for _, v := range []ledger.Verdict{ledger.Ended, ledger.Again, ledger.HandBack, ledger.Died} {
			other.wantFinish(other.finish(result(stale, v, jobs.StateSucceeded)), ledger.Fenced)
		}
		s.want("row", s.task(held[i].ID), "running attempt 1 token 2 replica two: -")
	}
	s.wantEmpty("done", "attempts", "outputs")
	s.wantFinish(other.finish(result(held[0], ledger.Ended, jobs.StateSucceeded)), ledger.Recorded)
}

// An answer that was lost is settled by asking again.
func repeatedFinish(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 4)
	tasks := s.claim("work", 4)
	results := []ledger.Result{
		result(tasks[0], ledger.Ended, jobs.StateSucceeded),
		result(tasks[1], ledger.Again, jobs.StateFailed),
		result(tasks[2], ledger.HandBack, ""),
		result(tasks[3], ledger.Died, jobs.StateLost),
	}
	for range 3 {
		s.wantFinish(s.finish(results...), ledger.Recorded, ledger.Recorded, ledger.Recorded, ledger.Recorded)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {attempts}")
	s.wantInt(2, "SELECT COUNT(*) FROM {done}")
	s.wantInt(1, "SELECT failures FROM {tasks} WHERE id=?", tasks[1].ID)
	// But what ended does not end otherwise.
	s.wantFinish(s.finish(result(tasks[0], ledger.Ended, jobs.StateFailed)), ledger.Fenced)
	s.want("row", s.task(tasks[0].ID), "succeeded attempt 1 token 1 replica one: -")
	stale := tasks[0]
	stale.Token--
	s.wantFinish(s.finish(result(stale, ledger.Ended, jobs.StateSucceeded)), ledger.Fenced)
	s.wantFinish(s.finish(result(tasks[0], ledger.Again, jobs.StateFailed)), ledger.Fenced)
	s.wantFinish(s.finish(result(tasks[1], ledger.Again, jobs.StateCancelled)), ledger.Fenced)
	s.wantFinish(s.finish(result(tasks[0], ledger.HandBack, "")), ledger.Fenced)
	s.wantFinish(s.finish(ledger.Result{TaskID: tasks[3].ID, Token: tasks[3].Token, Verdict: ledger.Died}), ledger.Recorded)
}

func retries(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("work", 1)[0]
	for n := 1; n <= 3; n++ {
		task := s.claim("work", 1)[0]
		if task.Attempt != n || task.Token != int64(n) || task.MaxAttempts != 3 {
			t.Fatalf("attempt %d is %+v", n, task)
		}
		done := s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Minute, Error: "no", ExitCode: &n})
		s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=? AND exit_code=? AND error='no' AND cancel=''", id, n)
		if wait := done[0].Task.RunAt.Sub(task.StartedAt); wait < time.Minute || wait > 2*time.Minute {
			t.Errorf("the next attempt is due %v after this one's start", wait)
		}
		s.wantInt(int64(n), "SELECT COUNT(*) FROM {attempts} WHERE task_id=? AND state='failed' AND error='no'", id)
		s.wantInt(int64(n), "SELECT failures FROM {tasks} WHERE id=?", id)
		s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE state=1 AND session_id='' AND claim_id='' AND may_run_until=0 AND started_at=0")
		if got := s.claim("work", 1); len(got) != 0 {
			t.Fatal("a task that waits was claimed")
		}
		s.DB.Exec(t, "UPDATE {tasks} SET run_at=1")
		_, err := b.Store.Ready(s.ctx(), asIs)
		must(t, err)
	}
	task := s.claim("work", 1)[0]
	s.finish(result(task, ledger.Ended, jobs.StateSucceeded))
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE attempt=4 AND failures=3 AND error=''")
	s.wantInt(3, "SELECT MAX(attempt) FROM {attempts}")
}

// A trigger's first start is undone with the claim.
func handBack(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.finish(result(got.Started[0], ledger.HandBack, ""))
	s.wantInt(0, "SELECT started_at FROM {triggers}")
	s.want("trigger", s.trigger("a", due(1), 0), "open: -")
	s.wantEmpty("attempts", "done")
	again := s.claim("default", 1)[0]
	if again.Attempt != 1 || again.Token != 2 {
		t.Errorf("claimed %+v", again)
	}
	s.wantInt(again.StartedAt.UnixMicro(), "SELECT started_at FROM {triggers}")
}

// A snoozed attempt is undone, and nothing of it is kept but why the task waits, and until when. It counts as no failure. One whose cancellation was
// requested is cancelled. A result that is written again changes nothing.
func snooze(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.enqueue("work", 2)
	tasks := append(got.Started, s.claim("work", 2)...)
	_, err = b.Store.Cancel(s.ctx(), tasks[2].ID, "me")
	must(t, err)
	var results []ledger.Result
	for _, task := range tasks {
		results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Snoozed, State: jobs.StatePending, RetryIn: time.Hour,
			Reason: "no file: snoozed for 1h", Code: reason.Snoozed})
	}
	done := s.finish(results...)
	s.wantFinish(done, ledger.Recorded, ledger.Recorded, ledger.Recorded)
	for i, want := range []jobs.State{jobs.StatePending, jobs.StatePending, jobs.StateCancelled} {
		s.wantAnswer(done[i], want)
	}
	s.wantFinish(s.finish(results...), ledger.Recorded, ledger.Recorded, ledger.Fenced)
	s.wantFinish(s.finish(result(tasks[1], ledger.Ended, jobs.StateFailed)), ledger.Fenced)
	for i, token := range []int64{tasks[0].Token, 1} {
		s.want("row", s.task(tasks[i].ID), fmt.Sprintf("waits attempt 0 token %d replica -: no file: snoozed for 1h", token))
		if wait := done[i].Task.RunAt.Sub(tasks[i].StartedAt); wait < time.Hour || wait > time.Hour+time.Minute {
			t.Errorf("due %v after its start", wait)
		}
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} WHERE failures=0 AND losses=0 AND reason_code='snoozed' AND session_id='' AND started_at=0")
	s.want("2", s.task(tasks[2].ID), "cancelled attempt 1 token 1 replica one: cancelled by me")
	s.want("trigger", s.trigger("a", due(1), 0), "open: -")
	s.wantInt(0, "SELECT started_at FROM {triggers}")
	s.wantEmpty("attempts", "outputs")
	if got := s.claim("work", 1); len(got) != 0 {
		t.Fatal("a snoozed task was claimed before it is due")
	}
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=1")
	_, err = b.Store.Ready(s.ctx(), asIs)
	must(t, err)
	again := s.claim("work", 1)[0]
	if again.Attempt != 1 || again.Token != 2 || again.Reason != "" {
		t.Errorf("claimed %+v", again)
	}
}

// The owner has written that the attempt is over, so the job is not busy.
func ownerDied(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.enqueue("again", 1)
	tasks := append(got.Started, s.claim("again", 1)...)
	var results []ledger.Result
	for _, task := range tasks {
		results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Died, State: jobs.StateLost, Reason: "drained"})
	}
	s.wantFinish(s.finish(results...), ledger.Recorded, ledger.Recorded)
	s.want("fails", s.task(tasks[0].ID), "lost attempt 1 token 1 replica one: drained")
	s.want("trigger", s.trigger("a", due(1), 0), "lost lost: drained")
	s.want("retries", s.task(tasks[1].ID), "ready attempt 1 token 1 replica -: drained")
	s.wantInt(0, "SELECT MAX(busy_until) FROM {jobs}")
	s.wantInt(1, "SELECT losses FROM {tasks}")
}

// Batches that do not fit into the limits of one statement.
func manyEnds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 510
	s.enqueue("work", n)
	tasks := s.claim("work", n)
	if len(tasks) != n {
		t.Fatalf("claimed %d", len(tasks))
	}
	var results []ledger.Result
	var moves []ledger.Extension
	for i, task := range tasks {
		r := result(task, ledger.Ended, []jobs.State{jobs.StateSucceeded, jobs.StateFailed}[i%2])
		if i%3 == 0 {
			r.Verdict = ledger.Again
		}
		results = append(results, r)
		moves = append(moves, ledger.Extension{TaskID: task.ID, Token: task.Token, Until: due(i)})
	}
	_, err := b.Store.Extend(s.ctx(), s.session, moves)
	must(t, err)
	for i, d := range s.finish(results...) {
		if d.Finish != ledger.Recorded {
			t.Fatalf("end %d is %s", i, d.Finish)
		}
	}
	s.wantInt(n, "SELECT (SELECT COUNT(*) FROM {done}) + (SELECT COUNT(*) FROM {attempts})")
}

// The same results from two connections: each is written once.
func finishTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 100)
	tasks := s.claim("work", 100)
	other := s.Open(t)
	Together(t, 8, func(ctx context.Context, i int) error {
		var results []ledger.Result
		for k := range tasks {
			results = append(results, result(tasks[(k*7+i*13)%100], ledger.Ended, jobs.StateSucceeded))
		}
		st := b.Store
		if i%2 == 1 {
			st = other
		}
		done, err := st.Finish(ctx, s.session, results)
		if err != nil {
			return err
		}
		for _, d := range done {
			if d.Finish != ledger.Recorded {
				t.Errorf("%s: %s", d.TaskID, d.Finish)
			}
		}
		return nil
	})
	s.wantInt(100, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantEmpty("tasks", "attempts")
}
