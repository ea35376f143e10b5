package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// The own result of a task that ended as lost replaces that, once.
func lateResult(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	s.die()
	if reaped := other.reap(); len(reaped) != 1 {
		t.Fatalf("reaped %+v", reaped)
	}
	s.want("row", s.task(task.ID), "lost attempt 1 token 1 replica one: the session of replica one expired while it had the task")
	stale := task
	stale.Token--
	s.wantFinish(s.finish(result(stale, ledger.Ended, jobs.StateSucceeded)), ledger.Fenced)
	s.wantFinish(s.finish(result(task, ledger.HandBack, "")), ledger.Fenced)
	s.wantFinish(s.finish(result(task, ledger.Snoozed, jobs.StatePending)), ledger.Fenced)

	s.session = s.join("one") // it comes back under a new session
	done := s.finish(ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Output: []byte("out")})
	s.wantFinish(done, ledger.Late)
	if done[0].Task.State != jobs.StateSucceeded {
		t.Errorf("answer is %+v", done[0].Task)
	}
	s.want("row", s.task(task.ID), "succeeded attempt 1 token 1 replica one: late")
	s.want("output", b.DB.Text(t, "SELECT output FROM {outputs}"), "out")
	s.wantFinish(s.finish(result(task, ledger.Ended, jobs.StateSucceeded)), ledger.Late) // the answer may have been lost
	s.wantFinish(s.finish(result(task, ledger.Ended, jobs.StateFailed)), ledger.Fenced)
	s.want("row", s.task(task.ID), "succeeded attempt 1 token 1 replica one: late")
}

// A lost task that was retried is no dead letter, whatever its own result says.
func lateResultOfRetried(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	s.die()
	other.reap()
	again, err := s.Store.Retry(s.ctx(), task.ID, "me", true)
	must(t, err)
	done := s.finish(result(task, ledger.Ended, jobs.StateFailed))
	s.wantFinish(done, ledger.Late)
	if is := done[0].Task; is.State != jobs.StateFailed || is.Fingerprint != "" || is.RetriedAs != again.ID {
		t.Errorf("answer is %+v", is)
	}
	s.want("row", s.DB.Text(t, "SELECT CONCAT(state, ' ', fingerprint, ' ', retried_as) FROM {done}"), "failed  "+again.ID)
}

func lateResultOfJob(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true), run("b", due(1), true), run("c", due(1), true))
	must(t, err)
	other := s.second("two")
	s.die()
	other.reap()
	s.want("trigger", s.trigger("a", due(1), 0), "lost lost: the session of replica one expired while it had the task")
	s.wantFinish(s.finish(
		ledger.Result{TaskID: got.Started[0].ID, Token: 1, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "exit status 1"},
		ledger.Result{TaskID: got.Started[1].ID, Token: 1, Verdict: ledger.Again, State: jobs.StateFailed}, // too late for another attempt
	), ledger.Late, ledger.Late)
	s.want("trigger of a", s.trigger("a", due(1), 0), "ran failed: late: exit status 1")
	s.want("trigger of b", s.trigger("b", due(1), 0), "ran failed: late")
	s.want("trigger of c", s.trigger("c", due(1), 0), "lost lost: the session of replica one expired while it had the task") // it wrote no result
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='c' AND busy_until>0")
	s.wantInt(0, "SELECT COUNT(*) FROM {jobs} WHERE name<>'c' AND busy_until>0")
}

// A task's row changes after its owner has read it and before it writes the end: what is written is about
// the row as it is then.
func endMoved(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of an end
	}
	s := newScene(t, b)
	n := 0
	for _, c := range []struct {
		verdict ledger.Verdict
		change  string
		want    ledger.Finish
		row     string
	}{
		{ledger.Ended, "token=token+1", ledger.Fenced, "running attempt 1 token %d replica one: -"},
		{ledger.Ended, "state=0", ledger.Fenced, "ready attempt 1 token %d replica one: -"},
		{ledger.HandBack, "token=token+1", ledger.Fenced, "running attempt 1 token %d replica one: -"},
		{ledger.HandBack, "state=1", ledger.Recorded, "waits attempt 1 token %d replica one: -"}, // as if it was handed back before
		{ledger.HandBack, "cancel='by me'", ledger.Recorded, "cancelled attempt 1 token %d replica one: by me"},
	} {
		n++
		got, err := s.decide(run("a", due(n), true))
		must(t, err)
		task := got.Started[0]
		lock, err := b.DB.Handle().BeginTx(s.ctx(), nil)
		must(t, err)
		defer func() { _ = lock.Rollback() }()
		must(t, lock.QueryRowContext(s.ctx(), "SELECT job FROM lockstep_triggers WHERE task_id=? FOR UPDATE", task.ID).Scan(new(string)))
		ended := make(chan []ledger.Finished, 1)
		go func() {
			done, err := b.Store.Finish(s.ctx(), s.session, []ledger.Result{result(task, c.verdict, jobs.StateSucceeded)})
			if err != nil {
				t.Error(err)
			}
			ended <- done
		}()
		await.Until(t, "the owner has read the task, and waits for its trigger", func() bool {
			return b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'UPDATE {triggers}%' AND id<>CONNECTION_ID()") == 1
		})
		b.DB.Exec(t, "UPDATE {tasks} SET "+c.change+" WHERE id=?", task.ID)
		must(t, lock.Rollback())
		if done := <-ended; len(done) != 1 || done[0].Finish != c.want {
			t.Errorf("%s %s: %+v, want %v", c.verdict, c.change, done, c.want)
		}
		token := task.Token
		if strings.HasPrefix(c.change, "token") {
			token++
		}
		s.want(fmt.Sprint(c.verdict, " ", c.change), s.task(task.ID), fmt.Sprintf(c.row, token))
		b.DB.Exec(t, "DELETE FROM {tasks}")
	}
}
