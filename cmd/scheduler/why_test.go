package main

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestTasksWhy: the table has a line for each cause, and JSON and YAML have its fields.
func TestTasksWhy(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.fine(t, "pools", "pause", "keyed")
	first := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--key", "acme"))
	second := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--key", "acme", "--expires-in", "1h"))
	like(t, "task:        "+second+"\n"+
		"pool:        keyed\n"+
		"key:         acme\n"+
		"state:       pending\n"+
		"expires at:  …\n"+
		"read at:     …Z\n"+
		"starts:      unknown: it is not known when this ends: pool keyed is paused by api:127.0.0.1…\n"+
		"\n"+
		"CODE            WHY\n"+
		"pool_paused     pool keyed is paused by api:127.0.0.1…; nothing of it starts until it is resumed\n"+
		"waits_for_key   tasks with key acme run in their order: 1 task before it; the first is "+first+", which is pending\n"+
		"behind_others   1 ready task of pool keyed comes before it, by priority and due time\n", r.fine(t, "tasks", "why", second))
	y := decodeJSON[wire.Why](t, r.fine(t, "tasks", "why", second, "-o", "json"))
	if len(y.Causes) != 3 || y.Causes[0].By != "api:127.0.0.1" || y.Causes[1].Tasks[0].ID != first || y.Causes[2].Count != 1 || y.ExpiresAt.IsZero() || y.State != jobs.StatePending {
		t.Errorf("%+v", y)
	}
	var asYAML struct {
		TaskID string `yaml:"task_id"`
		Causes []struct{ Code, Message, Limit string }
		Start  struct{ Ahead int }
	}
	if err := yaml.Unmarshal([]byte(r.fine(t, "tasks", "why", second, "-o", "yaml")), &asYAML); err != nil || asYAML.TaskID != second || asYAML.Causes[1].Limit != "order" || asYAML.Start.Ahead != 1 {
		t.Errorf("%+v, %v", asYAML, err)
	}

	later := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail", "--run-at", "1h"))
	if got := r.fine(t, "tasks", "why", later); !strings.Contains(got, "starts:   20") || !strings.Contains(got, ", estimated: ") || !strings.Contains(got, "not_due   it is due at 20") {
		t.Error(got)
	}

	r.fine(t, "pools", "resume", "keyed")
	why := func() wire.Cause {
		return decodeJSON[wire.Why](t, r.fine(t, "tasks", "why", second, "-o", "json")).Causes[0]
	}
	await.Until(t, "the task has ended", func() bool { return why().Code == reason.Succeeded })
	if got := r.fine(t, "tasks", "why", second); strings.Contains(got, "starts:") || !strings.Contains(got, "it ended as succeeded at 20") {
		t.Error(got)
	}
	id := strings.TrimSpace(r.fine(t, "jobs", "run", "waits"))
	await.Until(t, "the job runs", func() bool {
		return strings.Contains(r.fine(t, "tasks", "why", id), "running   attempt 1 of 1 runs on r1 since 20")
	})
	close(r.release)
	for args, want := range map[string]int{
		"tasks why nope": exitFailed, "tasks why": exitUsage, "tasks why a b": exitUsage, "tasks why " + id + " -o xml": exitUsage,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want || stderr == "" {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}
