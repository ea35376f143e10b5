package main

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestUniqueCommands: flags make a task unique, and those of --many are the defaults of its lines.
func TestUniqueCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	enqueue := func(payload string, flags ...string) (id, stderr string) {
		t.Helper()
		code, stdout, stderr := r.scheduler(t, "", append([]string{"tasks", "enqueue", "mail", "--run-at", "1h", "--payload", payload}, flags...)...)
		if code != exitFine {
			t.Fatalf("%s %v: %d %s", payload, flags, code, stderr)
		}
		return strings.TrimSpace(stdout), stderr
	}
	const exists = "A unique task with the same values exists already.\n"
	by := []string{"--unique-by", "kind,payload.user"}
	first, _ := enqueue(`{"user":7,"n":1}`, append(by, "--unique-for", "1d", "--unique-while", "pending")...)
	if id, stderr := enqueue(`{"user":7,"n":2}`, by...); id != first || stderr != exists {
		t.Errorf("kept: %s, not %s: %s", id, first, stderr)
	}
	if id, stderr := enqueue(`{"user":7,"n":2}`, append(by, "--idempotency-key", "k")...); id != first || stderr != "A task with this idempotency key, or a unique one with the same values, exists already.\n" {
		t.Errorf("with a key: %s, not %s: %s", id, first, stderr)
	}
	if id, _ := enqueue(`{"user":7,"n":3}`, append(by, "--on-conflict", "replace")...); id != first {
		t.Errorf("replaced: %s, not %s", id, first)
	}
	if got := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", first, "-o", "json")); !strings.Contains(string(got.Payload), `"n": 3`) {
		t.Errorf("replaced: %s", got.Payload)
	}
	if id, stderr := enqueue(`{"user":7,"n":3}`, "--unique-while", "open"); id == first || stderr != "" {
		t.Errorf("compared by its whole payload it is not another one: %s", stderr)
	}
	code, _, stderr := r.scheduler(t, "", append([]string{"tasks", "enqueue", "mail", "--payload", `{"user":7}`, "--on-conflict", "reject"}, by...)...)
	if code != exitFailed || !strings.Contains(stderr, first) {
		t.Errorf("rejected: %d %s", code, stderr)
	}
	for flags, want := range map[string]struct {
		code int
		says string
	}{
		"--unique-for 10":    {exitUsage, "--unique-for: duration \"10\" has no unit"},
		"--unique-by user":   {exitFailed, "unique.by[0]: \"user\" is unknown"},
		"--unique-while x":   {exitFailed, "unique.while: \"x\" is unknown; use pending or open"},
		"--on-conflict drop": {exitFailed, "unique.on_conflict: \"drop\" is unknown; use keep or replace or reject"},
	} {
		if code, _, stderr := r.scheduler(t, "", append([]string{"tasks", "enqueue", "mail"}, strings.Fields(flags)...)...); code != want.code || !strings.Contains(stderr, want.says) {
			t.Errorf("%s: %d %s", flags, code, stderr)
		}
	}

	lines := `{"payload":{"user":8,"n":1}}
{"payload":{"user":8,"n":2}}
{"payload":{"user":8,"n":1},"unique":{"by":["payload.n","payload.user"]}}
{"payload":{"user":8,"n":1},"unique":null}
{"payload":{"user":8,"n":3}}
`
	code, stdout, stderr := r.scheduler(t, lines, "tasks", "enqueue", "mail", "--many", "--run-at", "1h", "--unique-by", "payload.user")
	ids := strings.Fields(stdout)
	if code != exitFine || len(ids) != 5 || ids[1] != ids[0] || ids[4] != ids[0] || ids[2] == ids[0] || ids[3] == ids[0] || ids[3] == ids[2] {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := r.scheduler(t, `{"unique":{"until":"1h"}}`, "tasks", "enqueue", "mail", "--many"); code != exitFailed || !strings.Contains(stderr, `line 1: unique.until: unknown key "until"`) {
		t.Errorf("%d %s", code, stderr)
	}
}
