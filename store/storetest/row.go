package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// row is one by its columns; times are numbers, as the columns have them.
type row map[string]any

// row reads the only row of a table for which where holds.
func (s *scene) row(table, where string, args ...any) row {
	s.t.Helper()
	s.wantInt(1, "SELECT COUNT(*) FROM {"+table+"} WHERE "+where, args...)
	rows, err := s.DB.Handle().QueryContext(s.ctx(), "SELECT * FROM lockstep_"+table+" WHERE "+where, args...)
	must(s.t, err)
	defer rows.Close()
	names, err := rows.Columns()
	must(s.t, err)
	values, dest := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	all := row{}
	if rows.Next() {
		must(s.t, rows.Scan(dest...))
		for i, name := range names {
			if text, is := values[i].([]byte); is {
				values[i] = string(text)
			}
			all[name] = values[i]
		}
	}
	must(s.t, rows.Err())
	if table == "tasks" { // the column follows from others
		var waits any
		number := func(column string) int64 { n, _ := all[column].(int64); return n }
		switch waiting, expires := number("state") == 1, number("expires_at"); {
		case expires > 0 && number("attempt") == 0 && number("state") != 2 && (!waiting || expires <= number("run_at")):
			waits = -expires
		case waiting:
			waits = all["run_at"]
		}
		if all["wait_at"] != waits {
			s.t.Errorf("wait_at is %v, want %v: %v", all["wait_at"], waits, all)
		}
		delete(all, "wait_at")
	}
	return all
}

// with is the row after a change of some columns.
func (r row) with(changed row) row {
	r = maps.Clone(r)
	maps.Copy(r, changed)
	return r
}

// without is the row but for some columns.
func (r row) without(columns ...string) row {
	r = maps.Clone(r)
	for _, c := range columns {
		delete(r, c)
	}
	return r
}

// wantRow compares all columns of a row but for those that are not wanted to be anything; ids of what the store makes are.
func (s *scene) wantRow(what string, got, want row) {
	s.t.Helper()
	text := func(r row) map[string]string {
		all := map[string]string{}
		for name, value := range r {
			if at, is := value.(time.Time); is {
				value = at.UnixMicro()
			}
			all[name] = fmt.Sprint(value)
		}
		return all
	}
	if d := cmp.Diff(text(want), text(got)); d != "" {
		s.t.Errorf("%s: %s", what, d)
	}
}

// wantTask compares what Task returns with a whole task.
func (s *scene) wantTask(want jobs.Task, attempts ...jobs.Attempt) {
	s.t.Helper()
	got, earlier, err := s.Store.Task(s.ctx(), want.ID)
	must(s.t, err)
	if d := cmp.Diff(want, got); d != "" {
		s.t.Errorf("the task is not as it was answered: %s", d)
	}
	if d := cmp.Diff(attempts, earlier); d != "" {
		s.t.Errorf("earlier attempts: %s", d)
	}
}

// micro is a time that has come, and is that of nothing else.
func micro(n int) time.Time { return time.UnixMicro(1_600_000_000_000_000 + int64(n)).UTC() }

// ordinary is a row of {tasks} that is pending and has nothing special.
func ordinary(id string) row {
	return row{
		"id": id, "pool": "default", "kind": "", "task_key": "", "job": "", "trigger_at": 0, "trigger_seq": 0, "state": 0, "rank_order": 0, "run_at": 0, "expires_at": 0, "own_attempts": 0, "own_timeout": 0, "own_backoff": 0,
		"attempt": 0, "failures": 0, "losses": 0, "max_attempts": 1, "on_lost": "fail", "lost_limit": 3, "token": 0, "session_id": "", "replica": "",
		"claim_id": "", "may_run_until": 0, "cancel": "", "idem_key": "", "payload": "", "payload_size": 0, "tags": "", "retry_of": "", "reason": "", "reason_code": "",
		"error": "", "exit_code": nil, "created_at": 0, "started_at": 0, "made_by": "", "progress": "",
	}
}

// done is the row of {done} of a task that had this row.
func (r row) done(end row) row {
	return r.without("claim_id", "cancel", "progress").with(row{"late": 0, "may_run_until": 0, "fingerprint": "", "retried_as": ""}).with(end)
}

// made is a task of the pool again with all that one can be given, and its row.
func (s *scene) made() (jobs.Task, row) {
	s.t.Helper()
	all, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{
		Pool: "again", Kind: "k", Key: "tenant", Payload: json.RawMessage(`{"n":1}`), RunAt: micro(1), ExpiresAt: far, MaxAttempts: 12, Timeout: 13 * time.Millisecond, Backoff: 14 * time.Second, Priority: 7, IdempotencyKey: "key",
		Tags: []string{"x", "y"}, By: "bob",
	})
	must(s.t, err)
	task := all[0].Task
	return task, ordinary(task.ID).with(row{
		"pool": "again", "kind": "k", "task_key": "tenant", "rank_order": -7, "run_at": micro(1), "expires_at": far, "own_attempts": 12, "own_timeout": 13_000, "own_backoff": 14_000_000, "max_attempts": 12, "on_lost": "retry", "idem_key": "key",
		"payload": `{"n":1}`, "tags": `["x","y"]`, "created_at": task.CreatedAt, "made_by": "bob",
	})
}

// taken claims the only task of the pool again, and returns it and what that changed of its row.
func (s *scene) taken(until time.Time) (jobs.Task, row) {
	s.t.Helper()
	c := s.claiming("again", 5)
	c.Admit = func(time.Time, ledger.Candidate) (time.Time, bool) { return until, true }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	if len(got.Tasks) != 1 || !got.Claimed.Tasks[0].Until.Equal(until) {
		s.t.Fatalf("%d tasks were claimed, until %v", len(got.Tasks), got.Claimed.Tasks)
	}
	task := got.Tasks[0]
	return task, row{
		"state": 2, "attempt": task.Attempt, "token": task.Token, "session_id": s.session, "replica": s.replica, "claim_id": c.ID,
		"may_run_until": until, "started_at": got.Now, "reason": "", "reason_code": "", "error": "", "exit_code": nil,
	}
}
