package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is compared with the jobs that govern on a running replica: what is added, removed and changed, in which keys, and in which due times.
func TestPlanAgainstAServer(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	plan := func(text string) (int, plan, string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := r.scheduler(t, "", "plan", file, "--exit-code", "-o", "json", "--server", r.url)
		var p plan
		if err := json.Unmarshal([]byte(stdout), &p); err != nil || p.File == "" {
			t.Fatalf("%d %v: %s %s", code, err, stdout, stderr)
		}
		return code, p, stderr
	}
	const same = `version: 1
jobs:
  hello: {schedule: "0 0 1 1 *", ends_at: 2999-01-01T00:00:00Z, priority: -3, command: [echo], params: {type: ["null", object], properties: {n: {type: integer}}}}
`
	code, p, stderr := plan(same)
	if code != exitChange || strings.Join(p.Jobs.Removed, " ") != "fails waits" || len(p.Jobs.Added) > 0 || len(p.Due) > 0 || !strings.HasPrefix(p.File, "http://") || !strings.Contains(stderr, "may be secret") {
		t.Errorf("%d %+v %s", code, p, stderr)
	}
	if len(p.Jobs.Changed) != 1 || p.Jobs.Changed[0].Name != "hello" || len(p.Jobs.Changed[0].Fields) != 1 || p.Jobs.Changed[0].Fields[0].Field != "handler" {
		t.Errorf("changed are %+v", p.Jobs.Changed)
	}
	_, p, _ = plan(strings.Replace(same, "0 0 1 1 *", "@hourly", 1) + "  new: {schedule: \"*/30 * * * *\", command: [echo]}\n")
	fields := ""
	for _, f := range p.Jobs.Changed[0].Fields {
		fields += f.Field + " "
	}
	if fields != "handler schedules " || strings.Join(p.Jobs.Added, " ") != "new" {
		t.Errorf("changed are %q, added %q", fields, p.Jobs.Added)
	}
	if len(p.Due) != 2 || p.Due[0].Job != "hello" || p.Due[0].New+p.Due[0].Moved < 23 || p.Due[1].Job != "new" || p.Due[1].New != 48 {
		t.Errorf("due times %+v", p.Due)
	}
}
