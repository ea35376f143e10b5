package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestKeysCommands: a task gets the key of the flag or of its line, and shows it; pools show what they do by key.
func TestKeysCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	one := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--key", "tenant 7", "--payload", "1"))
	if got := r.fine(t, "tasks", "logs", one, "--follow"); got != "tenant 7 1\n" {
		t.Errorf("its handler got %q", got)
	}
	if other := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "keyed", "--key", "tenant 7", "--payload", "1")); other == one {
		t.Error("a key was taken as an idempotency key")
	}
	if got := r.fine(t, "tasks", "get", one); !strings.Contains(got, "key:       tenant 7\n") {
		t.Error(got)
	}
	code, stdout, stderr := r.scheduler(t, "{\"payload\":1}\n{\"key\":\"own\"}\n{\"key\":\"\"}\n", "tasks", "enqueue", "keyed", "--many", "--key", "shared")
	if code != exitFine {
		t.Fatalf("%d %q", code, stderr)
	}
	ids, listed := strings.Fields(stdout), decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--pool", "keyed", "-o", "json"))
	for i, want := range []string{"shared", "own", ""} {
		if at := slices.IndexFunc(listed, func(task jobs.Task) bool { return task.ID == ids[i] }); at < 0 || listed[at].Key != want {
			t.Errorf("line %d has not the key %q: %+v", i+1, want, listed)
		}
	}
	if byKey := strings.Fields(r.fine(t, "tasks", "list", "--key", "own", "--since", "1h", "-o", "json")); len(decodeJSON[[]jobs.Task](t, strings.Join(byKey, ""))) != 1 {
		t.Errorf("by key: %v", byKey)
	}
	if _, _, stderr := r.scheduler(t, "", "tasks", "list", "--until", "soon"); !strings.Contains(stderr, "--until: ") {
		t.Error(stderr)
	}
	table := strings.Join(strings.Fields(r.fine(t, "tasks", "list", "--pool", "keyed")), " ")
	if !strings.HasPrefix(table, "TASK POOL KIND KEY JOB STATE ") || !strings.Contains(table, ids[0]+" keyed - shared - ") {
		t.Error(table)
	}
	if code, _, stderr := r.scheduler(t, "", "tasks", "enqueue", "keyed", "--key", strings.Repeat("k", 129)); code != exitFailed || !strings.Contains(stderr, "key: must be at most 128 bytes of printable text") {
		t.Errorf("%d %q", code, stderr)
	}

	pools := decodeJSON[[]wire.Pool](t, r.fine(t, "pools", "list", "-o", "json"))
	at := slices.IndexFunc(pools, func(p wire.Pool) bool { return p.Name == "keyed" })
	if p := pools[at]; p.PerKey.MaxRunning != 1 || p.PerKey.Rate.String() != "1000/s" || p.PerKey.Burst != 10 || p.Order != jobs.OrderKey {
		t.Errorf("%+v", p)
	}
}
