package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var cancelCases = []Case{
	{"Cancel/Pending", cancelPending},
	{"Cancel/Running", cancelRunning},
	{"Cancel/Verdicts", cancelVerdicts},
	{"Cancel/Races", cancelRaces},
	{"Cancel/Moved", cancelMoved},
	{"Cancel/Retry", retryTask},
}

func cancelPending(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), false), run("b", due(1), true))
	must(t, err)
	again := got.Started[0]
	s.finish(result(again, ledger.Again, jobs.StateFailed))
	id := got.Opened[0].ID
	task, err := b.Store.Cancel(s.ctx(), id, "alice")
	must(t, err)
	if task.State != jobs.StateCancelled || task.Reason != "cancelled by alice" || task.ReasonCode != reason.Cancelled || task.FinishedAt.IsZero() {
		t.Errorf("answer is %+v", task)
	}
	s.want("task", s.task(id), "cancelled attempt 0 token 0 replica -: cancelled by alice")
	s.want("trigger", s.trigger("a", due(1), 0), "skipped cancelled: cancelled")

	// One that has run before did run.
	_, err = b.Store.Cancel(s.ctx(), again.ID, "")
	must(t, err)
	s.want("task", s.task(again.ID), "cancelled attempt 1 token 1 replica -: cancelled")
	s.want("trigger", s.trigger("b", due(1), 0), "ran cancelled: cancelled")
	s.wantEmpty("tasks")

	if _, err := b.Store.Cancel(s.ctx(), id, "alice"); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("of an ended task: %v", err)
	}
	if _, err := b.Store.Cancel(s.ctx(), newID(), ""); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("of no task: %v", err)
	}
}

func cancelRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	claimed := s.claim("work", 1)[0]
	for _, by := range []string{"alice", "bob"} {
		task, err := b.Store.Cancel(s.ctx(), claimed.ID, by)
		must(t, err)
		if task.State != jobs.StateRunning {
			t.Errorf("answer is %+v", task)
		}
	}
	is, err := b.Store.Running(s.ctx(), s.session)
	must(t, err)
	if len(is.Own) != 1 || is.Own[0].Cancel != "cancelled by alice" || is.Orphaned {
		t.Errorf("the owner sees %+v", is)
	}
	// It may still succeed.
	s.wantFinish(s.finish(result(claimed, ledger.Ended, jobs.StateSucceeded)), ledger.Recorded)
	s.want("task", s.task(claimed.ID)[:9], "succeeded")
}

// A task with a requested cancellation does not run again, whatever its owner reports.
func cancelVerdicts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true), run("b", due(1), true))
	must(t, err)
	s.enqueue("again", 1)
	tasks := append(got.Started, s.claim("again", 1)...)
	for _, task := range tasks {
		_, err := b.Store.Cancel(s.ctx(), task.ID, "alice")
		must(t, err)
	}
	// The answer may have been lost. A task that was handed back has no owner any more, whatever its state.
	for _, handedBack := range []ledger.Finish{ledger.Recorded, ledger.Fenced} {
		s.wantFinish(s.finish(
			result(tasks[0], ledger.Again, jobs.StateFailed),
			result(tasks[1], ledger.HandBack, ""),
			ledger.Result{TaskID: tasks[2].ID, Token: tasks[2].Token, Verdict: ledger.Died, State: jobs.StateLost, Reason: "drained"},
		), ledger.Recorded, handedBack, ledger.Recorded)
	}
	s.wantFinish(s.finish(result(tasks[0], ledger.Ended, jobs.StateFailed)), ledger.Fenced)
	s.want("again", s.task(tasks[0].ID), "cancelled attempt 1 token 1 replica one: cancelled by alice")
	s.want("hand back", s.task(tasks[1].ID), "cancelled attempt 1 token 1 replica one: cancelled by alice")
	s.want("died", s.task(tasks[2].ID), "lost attempt 1 token 1 replica one: drained; cancelled by alice")
	s.want("trigger of a", s.trigger("a", due(1), 0), "ran cancelled: cancelled by alice")
	s.want("trigger of b", s.trigger("b", due(1), 0), "skipped cancelled: cancelled")
	s.wantEmpty("tasks")

	// One whose second attempt was not started did run before.
	d, err := s.decide(run("c", due(1), true))
	must(t, err)
	s.finish(result(d.Started[0], ledger.Again, jobs.StateFailed))
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	second := s.claim("default", 1)[0]
	_, err = b.Store.Cancel(s.ctx(), second.ID, "alice")
	must(t, err)
	s.wantFinish(s.finish(result(second, ledger.HandBack, "")), ledger.Recorded)
	s.want("trigger of c", s.trigger("c", due(1), 0), "ran cancelled: cancelled by alice")
}

// Cancelling beside claims and ends: every task ends once, and one whose cancellation was accepted
// before its owner wanted another attempt gets none.
func cancelRaces(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 60
	all := s.enqueue("work", n)
	accepted := make([]bool, n)
	Together(t, 3, func(ctx context.Context, i int) error {
		if i == 0 {
			for k, id := range all {
				_, err := b.Store.Cancel(ctx, id, "alice")
				if err != nil && !errors.Is(err, jobs.ErrConflict) {
					return err
				}
				accepted[k] = err == nil
			}
			return nil
		}
		for {
			got, err := tasksOf(b.Store.Claim(ctx, s.claiming("work", 4)))
			if err != nil || len(got.Tasks) == 0 && !got.More {
				return err
			}
			var results []ledger.Result
			for k, task := range got.Tasks {
				v := []ledger.Verdict{ledger.Ended, ledger.Again, ledger.HandBack}[k%3]
				if task.Token > 2 {
					v = ledger.Ended
				}
				results = append(results, result(task, v, jobs.StateFailed))
			}
			done, err := b.Store.Finish(ctx, s.session, results)
			if err != nil {
				return err
			}
			for _, d := range done {
				if d.Finish != ledger.Recorded {
					t.Errorf("%s is %s", d.TaskID, d.Finish)
				}
			}
		}
	})
	for k, id := range all {
		row := s.task(id)
		pending := row[:5] == "ready" || row[:5] == "waits"
		if accepted[k] && pending || row == "none" || row[:7] == "running" {
			t.Errorf("task %d, cancelled %v, is %s", k, accepted[k], row)
		}
	}
	s.wantInt(n, "SELECT (SELECT COUNT(*) FROM {tasks}) + (SELECT COUNT(*) FROM {done})")
	if !slices.Contains(accepted, true) {
		t.Error("nothing was cancelled")
	}
}

// A task that is handed back while its cancellation is being requested is cancelled; if it was claimed again, under its new owner.
func cancelMoved(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a cancellation
	}
	s := newScene(t, b)
	const handBack = "state=0, attempt=0, session_id='', replica='', claim_id='', may_run_until=0, started_at=0"
	for change, row := range map[string]string{
		"token=token+1": "running attempt 1 token 2 replica one: -",
		handBack:        "cancelled attempt 0 token 1 replica -: cancelled by alice",
	} {
		s.enqueue("work", 1)
		id := s.claim("work", 1)[0].ID
		lock, err := b.DB.Handle().BeginTx(s.ctx(), nil)
		must(t, err)
		defer func() { _ = lock.Rollback() }()
		_, err = lock.ExecContext(s.ctx(), "UPDATE lockstep_tasks SET "+change+" WHERE id=?", id)
		must(t, err)
		cancelled := make(chan error, 1)
		go func() { _, err := b.Store.Cancel(s.ctx(), id, "alice"); cancelled <- err }()
		await.Until(t, "the cancellation has read the task, and waits for its row", func() bool {
			return b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'UPDATE {tasks}% SET cancel%' AND id<>CONNECTION_ID()") == 1
		})
		must(t, lock.Commit())
		must(t, <-cancelled)
		s.want(change, s.task(id), row)
	}
	s.want("asked", b.DB.Text(t, "SELECT cancel FROM {tasks} WHERE token=2"), "cancelled by alice")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks}")
}

func retryTask(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first := s.enqueue("work", 1)[0]
	s.DB.Exec(t, "UPDATE {tasks} SET made_by='bob', kind='mail', rank_order=-5, tags='[\"x\"]', idem_key='k'")
	if _, err := b.Store.Retry(s.ctx(), first, "", false); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("of a pending task: %v", err)
	}
	if _, err := b.Store.Retry(s.ctx(), newID(), "", false); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("of no task: %v", err)
	}
	beside := s.enqueue("again", 1)[0] // which is none of it
	id := first
	for range 2 {
		old := s.claim("work", 1)[0]
		s.finish(result(old, ledger.Ended, jobs.StateFailed))
		task, err := b.Store.Retry(s.ctx(), id, "alice", false)
		must(t, err)
		want := old
		want.ID, want.RetryOf, want.State, want.Reason, want.ReasonCode = task.ID, first, jobs.StatePending, "retry of "+id+" by alice", reason.Retry
		want.By = "alice"
		want.Attempt, want.Token, want.Replica = 0, 0, ""
		want.RunAt, want.CreatedAt, want.StartedAt = task.RunAt, task.RunAt, task.FinishedAt
		want.IdempotencyKey = first
		if d := cmp.Diff(want, task); d != "" || task.ID == id {
			t.Error(d)
		}
		id = task.ID
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {done}")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE state=0 AND rank_order=-5 AND idem_key=''")
	unnamed, err := b.Store.Retry(s.ctx(), first, "", false)
	must(t, err)
	s.want("the reason of a retry that no one is named for", unnamed.Reason, "retry of "+first)
	s.want("the task beside it", s.task(beside), "ready attempt 0 token 0 replica -: -")

	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.finish(result(got.Started[0], ledger.Ended, jobs.StateFailed))
	if _, err := b.Store.Retry(s.ctx(), got.Started[0].ID, "", false); !errors.Is(err, jobs.ErrConflict) ||
		!strings.Contains(err.Error(), "task "+got.Started[0].ID+" belongs to job a") {
		t.Errorf("of a job's task: %v", err)
	}
}
