package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
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
		ledger.Decision{Job: "a", Cursor: due(11), NextAt: due(12), Triggers: []ledger.Opening{{
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

	s.wantRow("trigger of a", s.row("triggers", "job='a'"), row{
		"job": "a", "at": due(1), "seq": 1, "until_at": due(4), "due_count": 4, "cause": "manual", "by_whom": "alice", "outcome": "",
		"reason": "by hand", "reason_code": "forced", "result": "", "task_id": claimed, "replica": "asker", "decided_at": got.Now, "started_at": got.Now, "finished_at": 0,
	})
	s.wantRow("trigger of b", s.row("triggers", "job='b'"), row{
		"job": "b", "at": due(2), "seq": 0, "until_at": 0, "due_count": 1, "cause": "schedule", "by_whom": "", "outcome": "",
		"reason": "", "reason_code": "", "result": "", "task_id": waits, "replica": "one", "decided_at": got.Now, "started_at": 0, "finished_at": 0,
	})
	s.wantRow("trigger of c", s.row("triggers", "job='c'"), row{
		"job": "c", "at": due(3), "seq": 0, "until_at": due(5), "due_count": 3, "cause": "catch_up", "by_whom": "carol", "outcome": "missed",
		"reason": "too late", "reason_code": "catch_up_none", "result": "lost", "task_id": "none", "replica": "one", "decided_at": got.Now, "started_at": micro(2), "finished_at": micro(3),
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
		"name": "a", "stripe": 0, "hash": hash, "schedule": "every minute", "cursor_at": due(11), "next_at": due(12), "waiting_at": 0, "fence": 1,
		"suspended": nil, "suspended_by": "", "busy_until": 0,
	})
	s.wantRow("job b", s.row("jobs", "name='b'").without("config"), job.with(row{"name": "b", "stripe": 1, "cursor_at": due(13), "next_at": 0, "waiting_at": due(14), "fence": 0}))
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
	s.wantRow("output of the first attempt", s.row("outputs", "attempt=1"), row{"task_id": task.ID, "attempt": 1, "output": "first", "created_at": at})
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
		"task_id": task.ID, "attempt": 2, "output": "second", "created_at": ended.FinishedAt,
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
	s.wantRow("its output", s.row("outputs", "1=1"), row{"task_id": task.ID, "attempt": 1, "output": "said", "created_at": at})
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

func sessionRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session, err := s.Store.Join(s.ctx(), ledger.Member{
		Replica: "two", Host: "host", PID: 11, PIDStart: 12, BootID: "boot", Version: "v1", Address: "address", Workers: 13,
		Labels: map[string]string{"zone": "a"}, LockService: "test", TTL: 14 * time.Microsecond, Config: 15,
	})
	must(t, err)
	got := s.row("sessions", "id=?", session)
	want := row{
		"id": session, "replica": "two", "live": 1, "dead": 0, "beat": 0, "draining": 0, "config": 15, "lock_service": "test", "ttl": 14,
		"host": "host", "boot_id": "boot", "pid": 11, "pid_start": 12, "version": "v1", "address": "address", "workers": 13,
		"labels": `{"zone":"a"}`, "pool": "", "kinds": "null", "owner": "", "joined_at": got["seen_at"], "seen_at": got["seen_at"],
	}
	s.wantRow("session", got, want)
	now, err := s.Store.Beat(s.ctx(), session)
	must(t, err)
	want = want.with(row{"beat": 1, "seen_at": now})
	s.wantRow("session that beat", s.row("sessions", "id=?", session), want)
	must(t, s.Store.SetDraining(s.ctx(), session))
	want = want.with(row{"draining": 1})
	s.wantRow("session that drains", s.row("sessions", "id=?", session), want)
	must(t, s.Store.Leave(s.ctx(), session))
	s.wantRow("session that left", s.row("sessions", "id=?", session), want.with(row{"live": nil, "dead": 1}))
}

func definedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	d.Jobs[1].Stripe, d.Jobs[1].Hash, d.Jobs[1].Schedule = 17, "hash of b", "schedule of b"
	d.Jobs[1].Next = func(time.Time) time.Time { return due(1_000_000) }
	d.Pools[2] = ledger.PoolDef{Name: "work", Hash: "hash of work", MaxRunning: 18, MaxAttempts: 19, Rate: jobs.Rate{Count: 23, Per: time.Minute}, Burst: 24, LostLimit: 31, PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 29, Per: time.Hour}, Burst: 30}, PerKind: map[string]jobs.KindLimits{"k": {MaxRunning: 32, Rate: jobs.Rate{Count: 33, Per: time.Hour}, Burst: 34}}, Order: jobs.OrderKey, Fair: &jobs.Fair{Weights: map[string]int{"a": 3}}, Retry: true, Kinds: map[string]string{"k": "h"}}
	yes := true
	must(t, s.Store.SuspendJob(s.ctx(), "b", "alice", &yes))
	must(t, s.Store.PausePool(s.ctx(), "work", "bob", &yes))
	must(t, s.Store.LimitPool(s.ctx(), "work", "carol", &wire.PoolLimits{MaxRunning: new(25), Rate: &jobs.Rate{Count: 26, Per: time.Hour}, Burst: new(27), PerKey: &wire.LimitFields{Burst: new(35)}}))
	s.DB.Exec(t, "UPDATE {pools} SET bucket_full_at=28 WHERE name='work'")
	s.DB.Exec(t, "UPDATE {jobs} SET fence=20, busy_until=21, waiting_at=22, cursor_at=? WHERE name='b'", due(900_000).UnixMicro())
	config, err := s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	job := row{
		"name": "b", "stripe": 17, "hash": "hash of b", "schedule": "schedule of b", "config": config, "cursor_at": due(900_000),
		"next_at": due(1_000_000), "waiting_at": 0, "fence": 20, "suspended": 1, "suspended_by": "alice", "busy_until": 21,
	}
	s.wantRow("job", s.row("jobs", "name='b'"), job)
	kinds := `{"hash":"hash of work","kinds":{"k":"h"}}`
	pool := row{
		"name": "work", "hash": "hash of work", "config": config, "max_running": 18, "max_attempts": 19, "on_lost": "retry", "paused": 1,
		"paused_by": "bob", "kinds": kinds, "rate": "23/m", "burst": 24, "set_max_running": 25, "set_rate": "26/h", "set_burst": 27, "limits_by": "carol",
		"bucket_full_at": 28, "key_max_running": 1, "key_rate": "29/h", "key_burst": 30, "key_order": "key", "lost_limit": 31, "key_fair": `{"a":3}`, "key_pass": 0, "kind_limits": `{"k":{"MaxRunning":32,"Rate":"33/h","Burst":34}}`,
		"pause_window": "", "pause_reason": "", "set_key_limits": `{"per_key":{"burst":35}}`, "keys_left": 0, "keys_moved": nil,
	}
	if _, is := sqlOf(b.Store); !is { // it keeps them in another way
		pool["kinds"] = nil
	}
	s.wantRow("pool", s.row("pools", "name='work'"), pool)
	s.wantRow("kinds", s.row("kinds", "pool='work' AND config=?", config), row{"pool": "work", "config": config, "kinds": kinds})
	s.wantInt(config, "SELECT config FROM {sessions} WHERE id=?", s.session)

	s.DB.Exec(t, "UPDATE {jobs} SET waiting_at=22 WHERE name='b'")
	d.Jobs, d.Pools = d.Jobs[:1], d.Pools[:2]
	config, err = s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	s.wantRow("retired job", s.row("jobs", "name='b'"), job.with(row{"hash": "", "schedule": "", "config": config, "next_at": 0}))
	s.wantRow("retired pool", s.row("pools", "name='work'"), pool.with(row{"hash": "", "config": config}))
}
