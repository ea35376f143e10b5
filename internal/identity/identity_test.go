package identity

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func TestIdentity(t *testing.T) {
	task := jobs.Task{
		ID: "0197", Pool: "mail", Kind: "welcome", Key: "tenant 7", Job: "digest", ScheduledAt: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), Attempt: 2,
		Token: 7, Replica: "web-1", IdempotencyKey: "digest@2026-06-01T00:00:00Z",
		Locks: []jobs.HeldLock{{Key: "orders-db", Token: 12}, {Key: "tenant-7", Token: 13}},
	}
	got := map[string]string{}
	headers := map[string]string{}
	for _, v := range Of(task) {
		got[v.Env], headers[v.Env] = v.Value, v.Header
	}
	trace := got["TRACEPARENT"]
	delete(got, "TRACEPARENT")
	want := map[string]string{
		"LOCKSTEP_JOB": "digest", "LOCKSTEP_POOL": "mail", "LOCKSTEP_KIND": "welcome", "LOCKSTEP_KEY": "tenant 7", "LOCKSTEP_TASK_ID": "0197",
		"LOCKSTEP_SCHEDULED_AT": "2026-06-01T00:00:00Z", "LOCKSTEP_ATTEMPT": "2", "LOCKSTEP_FENCING_TOKEN": "7",
		"LOCKSTEP_IDEMPOTENCY_KEY": "digest@2026-06-01T00:00:00Z", "LOCKSTEP_REPLICA": "web-1",
		"LOCKSTEP_LOCK_TOKENS": `{"orders-db":12,"tenant-7":13}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (−want +got):\n%s", diff)
	}
	if headers["LOCKSTEP_TASK_ID"] != "Lockstep-Task-Id" || headers["LOCKSTEP_IDEMPOTENCY_KEY"] != "Idempotency-Key" {
		t.Errorf("headers: %v", headers)
	}
	for _, v := range Of(jobs.Task{Pool: "mail"}) {
		if v.Env == "LOCKSTEP_SCHEDULED_AT" && v.Value != "" {
			t.Errorf("a task that nothing scheduled is of %s", v.Value)
		}
		if v.Env == "LOCKSTEP_LOCK_TOKENS" && v.Value != "" {
			t.Errorf("a task without locks has the tokens %s", v.Value)
		}
	}
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(trace) {
		t.Errorf("traceparent %q", trace)
	}
	again := task
	again.Attempt = 3
	other := task
	other.ID = "0198"
	if a := traceparent(again); a[:35] != trace[:35] || a == trace {
		t.Errorf("the next attempt: %q after %q, want the same trace and another span", a, trace)
	}
	if second := traceparent(other); second[:35] == trace[:35] || second[36:] == trace[36:] {
		t.Errorf("two tasks of one pool share a trace or a span: %q and %q", trace, second)
	}
}
