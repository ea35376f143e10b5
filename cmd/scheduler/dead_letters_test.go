package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestDeadLettersCommands: what failed for good is shown in groups, a group is listed, and a retry takes a task out of it.
func TestDeadLettersCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	dead := func(args ...string) []wire.DeadLetters {
		return decodeJSON[[]wire.DeadLetters](t, r.fine(t, append([]string{"tasks", "dead", "-o", "json"}, args...)...))
	}
	if got := dead(); len(got) != 0 {
		t.Errorf("before a failure: %+v", got)
	}
	var ids []string
	for _, payload := range []string{"4711", "12"} {
		ids = append(ids, strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail", "--kind", "fails", "--payload", payload)))
	}
	r.scheduler(t, "", "jobs", "run", "fails", "--follow")
	await.Until(t, "all have failed", func() bool {
		got := dead()
		return len(got) == 2 && got[0].Count+got[1].Count == 3
	})
	mail := dead("--pool", "mail")
	if len(mail) != 1 || mail[0].Kind != "fails" || mail[0].Count != 2 || mail[0].TaskID != ids[1] || mail[0].Error != "not retried: user 12 not found" {
		t.Fatalf("%+v", mail)
	}
	if got := dead("--pool", "mail", "--fingerprint", mail[0].Fingerprint); len(got) != 1 || got[0] != mail[0] {
		t.Errorf("the group with the fingerprint: %+v", got)
	}
	if got := dead("--pool", "mail", "--fingerprint", "0123456789abcdef"); len(got) != 0 {
		t.Errorf("with another one: %+v", got)
	}
	if got := strings.Join(strings.Fields(r.fine(t, "tasks", "dead")), " "); !strings.HasPrefix(got, "POOL KIND JOB FINGERPRINT REASON COUNT FIRST LAST TASK ERROR default - fails ") ||
		!strings.Contains(got, " mail fails - "+mail[0].Fingerprint+" "+string(mail[0].ReasonCode)+" 2 ") || !strings.HasSuffix(got, ids[1]+" not retried: user 12 not found") {
		t.Error(got)
	}
	group := []string{"tasks", "list", "--pool", "mail", "--fingerprint", mail[0].Fingerprint, "-o", "json"}
	if got := decodeJSON[[]jobs.Task](t, r.fine(t, group...)); len(got) != 2 || got[0].ID != ids[1] || got[1].ID != ids[0] {
		t.Errorf("%+v", got)
	}
	if got := r.fine(t, "tasks", "list", "--job", "fails"); !strings.HasSuffix(strings.TrimSpace(got), " exit status 3") {
		t.Errorf("the error of what failed: %s", got)
	}
	r.fine(t, "pools", "pause", "mail")
	again := strings.TrimSpace(r.fine(t, "tasks", "retry", ids[1]))
	if got := decodeJSON[[]jobs.Task](t, r.fine(t, group...)); len(got) != 1 || got[0].ID != ids[0] {
		t.Errorf("%+v", got)
	}
	if got := r.fine(t, "tasks", "get", ids[1]); !strings.Contains(got, "retried as:") || !strings.Contains(got, again) {
		t.Error(got)
	}
	if got := r.fine(t, "tasks", "get", ids[0]); !strings.Contains(got, mail[0].Fingerprint) {
		t.Error(got)
	}
	for args, want := range map[string]int{
		"tasks dead --pool nothing": exitFailed,
		"tasks dead x":              exitUsage,
		"tasks dead --fingerprint " + mail[0].Fingerprint:          exitFailed,
		"tasks list --fingerprint " + mail[0].Fingerprint:          exitFailed,
		"tasks list --pool mail --fingerprint x":                   exitFailed,
		"tasks list --pool mail --fingerprint 0123456789abcdef":    exitFine,
		"tasks list --pool nothing --fingerprint 0123456789abcdef": exitFailed,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}
