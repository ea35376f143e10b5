package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestLifeCommands: a task ends when the flags say that it expires, and shows when that is.
func TestLifeCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.fine(t, "pools", "pause", "keyed")
	task := func(id string) jobs.Task {
		return decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", id, "-o", "json")).Task
	}
	soon := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--expires-in", "2s"))
	code, stdout, stderr := r.scheduler(t, "{}\n{\"expires_at\":\"2199-01-01T00:00:00Z\"}\n", "tasks", "enqueue", "keyed", "--many", "--expires-in", "1h")
	if code != exitFine {
		t.Fatalf("%d %q", code, stderr)
	}
	many := strings.Fields(stdout)
	if at := task(many[0]).ExpiresAt; time.Until(at).Round(time.Minute) != time.Hour || task(many[1]).ExpiresAt.Year() != 2199 {
		t.Errorf("expire at %v, %v", at, task(many[1]).ExpiresAt)
	}
	if got := r.fine(t, "tasks", "get", many[1]); !strings.Contains(got, "expires at:  2199-01-01 00:00:00") {
		t.Error(got)
	}
	r.fine(t, "tasks", "update", many[0], "--expires-at", "2198-01-01T00:00:00Z")
	if at := task(many[0]).ExpiresAt; at.Year() != 2198 {
		t.Errorf("changed to %v", at)
	}
	r.fine(t, "tasks", "update", many[0], "--expires-at", "never")
	if at := task(many[0]).ExpiresAt; !at.IsZero() {
		t.Errorf("changed to %v", at)
	}
	own := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--max-attempts", "3", "--timeout", "90s", "--backoff", "2s"))
	if got := r.fine(t, "tasks", "get", own); !strings.Contains(strings.Join(strings.Fields(got), " "), "attempt: 0/3 timeout: 1m30s backoff: 2s ") {
		t.Error(got)
	}
	code, stdout, stderr = r.scheduler(t, "{}\n{\"timeout\":\"5m\",\"max_attempts\":1}\n", "tasks", "enqueue", "keyed", "--many", "--timeout", "1m", "--backoff", "1s")
	if code != exitFine {
		t.Fatalf("%d %q", code, stderr)
	}
	many = append(many, strings.Fields(stdout)...)
	if a, b := task(many[2]), task(many[3]); a.Timeout.String() != "1m0s" || b.Timeout.String() != "5m0s" || b.Backoff.String() != "1s" || b.MaxAttempts != 1 || a.MaxAttempts == 1 {
		t.Errorf("%+v\n%+v", a, b)
	}
	await.Until(t, "the task has expired", func() bool {
		is := task(soon)
		return is.State == jobs.StateCancelled && is.ReasonCode == reason.Expired
	})
	for args, want := range map[string]int{
		"tasks enqueue keyed --expires-in soon":                                  exitUsage,
		"tasks enqueue keyed --expires-at soon":                                  exitUsage,
		"tasks enqueue keyed --expires-at never":                                 exitUsage,
		"tasks enqueue keyed --expires-at 2199-01-01T00:00:00Z --expires-in 10m": exitUsage,
		"tasks enqueue keyed --expires-at 2020-01-01T00:00:00Z":                  exitFailed,
		"tasks enqueue keyed --expires-in 1h --run-at 2h":                        exitFailed,
		"tasks update " + many[0] + " --expires-in soon":                         exitUsage,
		"tasks enqueue keyed --max-attempts 0":                                   exitUsage,
		"tasks enqueue keyed --max-attempts 1002":                                exitFailed,
		"tasks enqueue keyed --timeout 5":                                        exitUsage,
		"tasks enqueue keyed --backoff 0s":                                       exitUsage,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}
