package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// rowCases compare whole rows: every column of a row that a call writes, with a value of its own in each.
var rowCases = []Case{
	{"Rows/Decide", decidedRows},
	{"Rows/Enqueue", enqueuedRows},
	{"Rows/Ends", endedRows},
	{"Rows/Reap", reapedRows},
	{"Rows/Late", lateRows},
	{"Rows/Cancel", cancelledRows},
	{"Rows/Retry", retriedRows},
	{"Rows/Sessions", sessionRows},
	{"Rows/Definitions", definedRows},
}

func decidedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	claimed, waits := newID(), newID()
	got, err := s.decide(
		ledger.Decision{Job: "a", Cursor: due(11), Due: due(10), NextAt: due(12), Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{
				Job: "a", At: due(1), Until: due(4), Count: 4, Cause: jobs.CauseManual, By: "alice", Reason: "by hand", ReasonCode: reason.Forced, Replica: "asker",
			},
			Task: &jobs.Task{
				ID: admit(claimed, due(9)), Pool: "default", Kind: "k", Priority: 7, RunAt: micro(1), MaxAttempts: 5, OnLost: jobs.LostRetries, LostLimit: 32,
				Payload: json.RawMessage(`{"n":1}`), Tags: []string{"x", "y"}, RetryOf: "first", Reason: "again", ReasonCode: reason.Retry, By: "bob",
			},
		}}},
		ledger.Decision{Job: "b", Cursor: due(13), Waiting: due(14), Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{Job: "b", At: due(2), Cause: jobs.CauseSchedule},
			Task:    &jobs.Task{ID: waits, Pool: "work", RunAt: due(1_000_000)},
		}}},
		ledger.Decision{Job: "c", Triggers: []ledger.Opening{{Trigger: jobs.Trigger{
			Job: "c", At: due(3), Until: due(5), Count: 3, Cause: jobs.CauseCatchUp, By: "carol", Outcome: jobs.Missed, Reason: "too late", ReasonCode: reason.CatchUpNone,
			Result: jobs.StateLost, TaskID: "none", StartedAt: micro(2), FinishedAt: micro(3),
		}}}},
	)
	must(t, err)

	s.wantRow("task that was claimed", s.row("tasks", "id=?", claimed), ordinary(claimed).with(row{
		"kind": "k", "job": "a", "trigger_at": due(1), "trigger_seq": 1, "state": 2, "rank_order": -7, "run_at": micro(1), "attempt": 1,
		"max_attempts": 5, "on_lost": "retry", "lost_limit": 32, "token": 1, "session_id": s.session, "replica": "one", "may_run_until": due(9),
		"payload": `{"n":1}`, "tags": `["x","y"]`, "retry_of": "first", "reason": "again", "reason_code": "retry", "created_at": got.Now, "started_at": got.Now,
		"made_by": "bob",
	}))
	s.wantTask(got.Started[0])
	s.wantRow("task that waits", s.row("tasks", "id=?", waits), ordinary(waits).with(row{
		"pool": "work", "job": "b", "trigger_at": due(2), "state": 1, "run_at": due(1_000_000), "created_at": got.Now,
	}))
	s.wantTask(got.Opened[0])

	id := s.DB.Text(t, "SELECT definition FROM {definitions} WHERE job='a'")
	config := s.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", s.session)
	trigger := func(job string) row {
		is := s.row("triggers", "job=?", job)
		for _, column := range []string{"clock_offset", "took"} {
			if n := is[column].(int64); n < -time.Minute.Microseconds() || n > time.Minute.Microseconds() {
				t.Errorf("trigger of %s: %s is %d", job, column, n)
			}
		}
		return is.without("clock_offset", "took")
	}
	s.wantRow("trigger of a", trigger("a"), row{
		"job": "a", "at": due(1), "seq": 1, "until_at": due(4), "due_count": 4, "cause": "manual", "by_whom": "alice", "outcome": "",
		"reason": "by hand", "reason_code": "forced", "result": "", "task_id": claimed, "replica": "asker", "decided_at": got.Now, "started_at": got.Now, "finished_at": 0,
		"definition": id, "config": config, "overdue": 0, "order_id": "", "lock_took": 0,
	})
	s.wantRow("trigger of b", trigger("b"), row{
		"job": "b", "at": due(2), "seq": 0, "until_at": 0, "due_count": 1, "cause": "schedule", "by_whom": "", "outcome": "",
		"reason": "", "reason_code": "", "result": "", "task_id": waits, "replica": "one", "decided_at": got.Now, "started_at": 0, "finished_at": 0,
		"definition": id, "config": config, "overdue": 0, "order_id": "", "lock_took": 0,
	})
	s.wantRow("trigger of c", trigger("c"), row{
		"job": "c", "at": due(3), "seq": 0, "until_at": due(5), "due_count": 3, "cause": "catch_up", "by_whom": "carol", "outcome": "missed",
		"reason": "too late", "reason_code": "catch_up_none", "result": "lost", "task_id": "none", "replica": "one", "decided_at": got.Now, "started_at": micro(2), "finished_at": micro(3),
		"definition": id, "config": config, "overdue": 0, "order_id": "", "lock_took": 0,
	})
	s.wantRow("event of c", s.row("events", "1=1").without("id"), row{
		"event": "missed", "job": "c", "pool": "", "trigger_at": due(3), "trigger_seq": 0, "until_at": due(5), "due_count": 3, "task_id": "",
		"attempt": 0, "replica": "one", "reason": "too late", "reason_code": "catch_up_none", "error": "", "happened_at": got.Now,
	})
	s.wantRow("standing of c", s.row("standings", "kind='job' AND name='c'"), row{
		"kind": "job", "name": "c", "failing": 1, "last_success_at": 0, "last_end_at": got.Now,
	})

	// A task with an error and no reason ends the trigger with the first line of the error.
	s.finish(ledger.Result{
		TaskID: claimed, Token: 1, Verdict: ledger.Ended, State: jobs.StateFailed, Error: " no room \nleft on the disk",
	})
	s.want("trigger of a", s.trigger("a", due(1), 1), "ran failed: by hand; no room")

	job := s.row("jobs", "name='a'").without("config")
	s.wantRow("job a", job, row{
		"name": "a", "stripe": 0, "hash": hash, "schedule": "every minute", "cursor_at": due(11), "next_at": due(12), "waiting_at": 0, "due_at": due(10), "fence": 1,
		"suspended": nil, "suspended_by": "", "suspended_until": 0, "skip_next": 0, "skip_by": "", "busy_until": 0, "defined": hash, "suspend_after": 0, "failures": 0, "suspend_reason": "",
	})
	s.wantRow("job b", s.row("jobs", "name='b'").without("config"), job.with(row{"name": "b", "stripe": 1, "cursor_at": due(13), "next_at": 0, "waiting_at": due(14), "due_at": 0, "fence": 0}))
}

// fingerprint is that of a task that has one.
func fingerprint(t jobs.Task) string {
	f := jobs.Fingerprint(t)
	if f == "" {
		panic("no fingerprint")
	}
	return f
}

func enqueuedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task, want := s.made()
	s.wantRow("task", s.row("tasks", "id=?", task.ID), want)
	s.wantTask(task)
	body := sha256.Sum256([]byte("k\n" + `{"n":1}`))
	s.wantRow("idempotency key", s.row("idempotency", "1=1"), row{
		"pool": "again", "idem_key": "key", "task_id": task.ID, "body": hex.EncodeToString(body[:]), "created_at": task.CreatedAt,
	})

	claimed, by := s.taken(due(9))
	s.wantRow("claimed task", s.row("tasks", "id=?", task.ID), want.with(by))
	s.wantTask(claimed)

	later, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", RunAt: due(1_000_000)})
	must(t, err)
	s.wantRow("task that waits", s.row("tasks", "id=?", later[0].Task.ID), ordinary(later[0].Task.ID).with(row{
		"pool": "work", "state": 1, "run_at": due(1_000_000), "max_attempts": 3, "created_at": later[0].Task.CreatedAt,
	}))
	s.wantTask(later[0].Task)
}

func endedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, want := s.made()
	task, by := s.taken(due(9))
	want = want.with(by)

	exit := 3
	s.finish(ledger.Result{
		TaskID: task.ID, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Minute, Now: micro(2),
		Reason: "exit status 3", Code: reason.ExitCode, Error: "boom", ExitCode: &exit, Output: []byte("first"),
	})
	want = want.with(row{
		"state": 1, "run_at": micro(2 + minute), "failures": 1, "session_id": "", "replica": "", "claim_id": "", "may_run_until": 0,
		"reason": "exit status 3", "reason_code": "exit_code", "error": "boom", "exit_code": 3, "started_at": 0,
	})
	s.wantRow("task that is attempted again", s.row("tasks", "id=?", task.ID), want)
	attempt := s.row("attempts", "1=1")
	at := time.UnixMicro(attempt["finished_at"].(int64)).UTC()
	if at.Before(task.StartedAt) {
		t.Errorf("the attempt began at %v and ended at %v", task.StartedAt, at)
	}
	s.wantRow("first attempt", attempt, row{
		"task_id": task.ID, "attempt": 1, "state": "failed", "reason": "exit status 3", "reason_code": "exit_code", "token": 1, "replica": "one", "started_at": task.StartedAt,
		"finished_at": at, "exit_code": 3, "error": "boom",
	})
	s.wantRow("output of the first attempt", s.row("outputs", "attempt=1"), row{"task_id": task.ID, "attempt": 1, "output": "first", "created_at": at, "spans": ""})
	first := jobs.Attempt{
		Attempt: 1, State: jobs.StateFailed, Reason: "exit status 3", ReasonCode: reason.ExitCode, Token: 1, Replica: "one", StartedAt: task.StartedAt, FinishedAt: at,
		ExitCode: &exit, Error: "boom",
	}
	pending := task
	pending.State, pending.Replica, pending.StartedAt, pending.RunAt = jobs.StatePending, "", time.Time{}, micro(2+minute)
	pending.Reason, pending.ReasonCode, pending.Error, pending.ExitCode = "exit status 3", reason.ExitCode, "boom", &exit
	s.wantTask(pending, first)

	s.DB.Exec(t, "UPDATE {tasks} SET state=0 WHERE id=?", task.ID)
	second := s.second("two")
	task, by = second.taken(due(10))
	want = want.with(by)
	s.wantRow("task of the second attempt", s.row("tasks", "id=?", task.ID), want)
	four := 4
	done := second.finish(ledger.Result{
		TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "exit status 4", Code: reason.ExitCode, Error: "bang",
		ExitCode: &four, Output: []byte("second"),
	})
	ended := *done[0].Task
	s.wantRow("task that ended", s.row("done", "id=?", task.ID), want.done(row{
		"state": "failed", "failures": 2, "reason": "exit status 4", "reason_code": "exit_code", "error": "bang", "exit_code": 4, "finished_at": ended.FinishedAt, "fingerprint": fingerprint(jobs.Task{Kind: "k", State: jobs.StateFailed, ReasonCode: reason.ExitCode, ExitCode: &four, Error: "bang"}),
	}))
	ended.Payload, ended.PayloadSize = task.Payload, task.PayloadSize
	s.wantTask(ended, first)
	s.wantRow("output of the second attempt", s.row("outputs", "attempt=2"), row{
		"task_id": task.ID, "attempt": 2, "output": "second", "created_at": ended.FinishedAt, "spans": "",
	})
	s.wantRow("event", s.row("events", "1=1").without("id"), row{
		"event": "failed", "job": "", "pool": "again", "trigger_at": 0, "trigger_seq": 0, "until_at": 0, "due_count": 1, "task_id": task.ID,
		"attempt": 2, "replica": "two", "reason": "exit status 4", "reason_code": "exit_code", "error": "bang", "happened_at": ended.FinishedAt,
	})
	s.wantRow("standing", s.row("standings", "1=1"), row{"kind": "pool", "name": "again", "failing": 1, "last_success_at": 0, "last_end_at": 0})
}

func reapedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, want := s.made()
	task, by := s.taken(due(1_000_000))
	second := s.second("two")
	s.die()
	reaped := second.reap()
	s.wantRow("task that is attempted again", s.row("tasks", "id=?", task.ID), want.with(by).with(row{
		"state": 1, "run_at": due(1_000_000), "losses": 1, "session_id": "", "replica": "", "claim_id": "", "may_run_until": 0, "started_at": 0,
		"reason": "the session of replica one expired while it had the task", "reason_code": "replica_died",
	}))
	attempt := s.row("attempts", "1=1")
	s.wantRow("attempt that was lost", attempt, row{
		"task_id": task.ID, "attempt": 1, "state": "lost", "reason": "the session of replica one expired while it had the task", "reason_code": "replica_died", "token": 1, "replica": "one",
		"started_at": task.StartedAt, "finished_at": attempt["finished_at"], "exit_code": nil, "error": "",
	})
	if len(reaped) != 1 || reaped[0].Replica != "one" {
		t.Fatalf("reaped: %+v", reaped)
	}
	answered := reaped[0].Task
	answered.Payload, answered.PayloadSize = task.Payload, task.PayloadSize
	s.wantTask(answered, jobs.Attempt{
		Attempt: 1, State: jobs.StateLost, Reason: "the session of replica one expired while it had the task", ReasonCode: reason.ReplicaDied, Token: 1, Replica: "one", StartedAt: task.StartedAt,
		FinishedAt: time.UnixMicro(attempt["finished_at"].(int64)).UTC(),
	})
}

func lateRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	decision := run("a", due(1), true)
	admit(decision.Triggers[0].Task.ID, due(1_000_000))
	_, err := s.decide(run("a", due(2), false), run("a", due(3), false)) // others of the job, which stay as they are
	must(t, err)
	got, err := s.decide(decision)
	must(t, err)
	task := got.Started[0]
	want, trigger, job := s.row("tasks", "id=?", task.ID), s.row("triggers", "task_id=?", task.ID), s.row("jobs", "name='a'")
	second := s.second("two")
	s.die()
	lost := second.reap()[0].Task

	want = want.done(row{
		"state": "lost", "losses": 1, "reason": "the session of replica one expired while it had the task", "reason_code": "replica_died", "may_run_until": due(1_000_000),
		"finished_at": lost.FinishedAt, "fingerprint": fingerprint(jobs.Task{Job: "a", State: jobs.StateLost, ReasonCode: reason.ReplicaDied}),
	})
	s.wantRow("lost task", s.row("done", "1=1"), want)
	s.wantTask(lost)
	trigger = trigger.with(row{
		"outcome": "lost", "result": "lost", "reason": "the session of replica one expired while it had the task", "reason_code": "replica_died", "finished_at": lost.FinishedAt,
	})
	s.wantRow("its trigger", s.row("triggers", "task_id=?", task.ID), trigger)
	s.wantRow("its job", s.row("jobs", "name='a'"), job.with(row{"busy_until": due(1_000_000)}))
	event := row{
		"event": "lost", "job": "a", "pool": "default", "trigger_at": due(1), "trigger_seq": 0, "until_at": 0, "due_count": 1, "task_id": task.ID,
		"attempt": 1, "replica": "one", "reason": "the session of replica one expired while it had the task", "reason_code": "replica_died", "error": "", "happened_at": lost.FinishedAt,
	}
	s.wantRow("its event", s.row("events", "1=1").without("id"), event)
	standing := row{"kind": "job", "name": "a", "failing": 1, "last_success_at": 0, "last_end_at": lost.FinishedAt}
	s.wantRow("standing of its job", s.row("standings", "1=1"), standing)

	exit := 0
	late := s.finish(ledger.Result{
		TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Reason: "well", Error: "but", ExitCode: &exit,
		Output: []byte("said"),
	})[0]
	if late.Finish != ledger.Late {
		t.Fatalf("the late result is %s", late.Finish)
	}
	at := late.Task.FinishedAt
	s.wantRow("task with a late result", s.row("done", "1=1"), want.with(row{
		"state": "succeeded", "reason": "late: well", "reason_code": "late", "error": "but", "exit_code": 0, "finished_at": at, "late": 1, "fingerprint": "",
	}))
	s.wantTask(*late.Task)
	s.wantRow("its trigger, late", s.row("triggers", "task_id=?", task.ID), trigger.with(row{
		"outcome": "ran", "result": "succeeded", "reason": "late: well", "reason_code": "late", "finished_at": at,
	}))
	s.wantRow("its job, late", s.row("jobs", "name='a'"), job)
	s.wantRow("its event, late", s.row("events", "event='recovered'").without("id"), event.with(row{
		"event": "recovered", "reason": "late: well", "reason_code": "late", "error": "but", "happened_at": at,
	}))
	s.wantRow("standing of its job, late", s.row("standings", "1=1"), standing.with(row{"failing": 0, "last_success_at": at, "last_end_at": at}))
	s.wantRow("its output", s.row("outputs", "1=1"), row{"task_id": task.ID, "attempt": 1, "output": "said", "created_at": at, "spans": ""})
}

func cancelledRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, want := s.made()
	task, by := s.taken(due(9))
	asked, err := s.Store.Cancel(s.ctx(), task.ID, "carol")
	must(t, err)
	want = want.with(by).with(row{"cancel": "cancelled by carol"})
	s.wantRow("running task", s.row("tasks", "id=?", task.ID), want)
	s.wantTask(asked)

	exit := 3
	ended := s.finish(ledger.Result{
		TaskID: task.ID, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, Reason: "exit status 3", Code: reason.ExitCode, Error: "boom", ExitCode: &exit,
	})[0].Task
	s.wantRow("task that stopped", s.row("done", "id=?", task.ID), want.done(row{
		"state": "cancelled", "reason": "cancelled by carol", "reason_code": "cancelled", "error": "boom", "exit_code": 3, "finished_at": ended.FinishedAt,
	}))

	s.DB.Exec(t, "DELETE FROM {idempotency}")
	pending, want := s.made()
	cancelled, err := s.Store.Cancel(s.ctx(), pending.ID, "dave")
	must(t, err)
	s.wantRow("pending task", s.row("done", "id=?", pending.ID), want.done(row{
		"state": "cancelled", "reason": "cancelled by dave", "reason_code": "cancelled", "finished_at": cancelled.FinishedAt,
	}))
	cancelled.Payload, cancelled.PayloadSize = pending.Payload, pending.PayloadSize
	s.wantTask(cancelled)
}

func retriedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, want := s.made()
	task, _ := s.taken(due(9))
	exit := 3
	s.finish(ledger.Result{
		TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "exit status 3", Code: reason.ExitCode, Error: "boom", ExitCode: &exit,
	})
	ended := s.row("done", "id=?", task.ID)
	again, err := s.Store.Retry(s.ctx(), task.ID, "carol", false)
	must(t, err)
	s.wantRow("task that ended", s.row("done", "id=?", task.ID), ended.with(row{"fingerprint": "", "retried_as": again.ID}))
	want = want.with(row{
		"id": again.ID, "run_at": again.CreatedAt, "expires_at": 0, "idem_key": "", "retry_of": task.ID, "reason": "retry of " + task.ID + " by carol", "reason_code": "retry",
		"created_at": again.CreatedAt, "made_by": "carol",
	})
	s.wantRow("task that is retried", s.row("tasks", "id=?", again.ID), want)
	s.wantTask(again)
}
