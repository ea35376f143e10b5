package main

import (
	"database/sql"
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
	if len(p.Overrides) > 0 {
		t.Errorf("overrides %+v", p.Overrides)
	}
	if len(p.Due) != 2 || p.Due[0].Job != "hello" || p.Due[0].New+p.Due[0].Moved < 23 || p.Due[1].Job != "new" || p.Due[1].New != 48 {
		t.Errorf("due times %+v", p.Due)
	}

	// What somebody has set holds over the file: its due times are those that it has after all, and what differs is listed.
	r.fine(t, "jobs", "suspend", "hello")
	hourly := strings.Replace(same, "0 0 1 1 *", "@hourly", 1)
	code, p, _ = plan(hourly)
	if len(p.Due) > 0 || len(p.Overrides) != 1 || p.Overrides[0] != (override{Job: "hello", Suspended: true, By: "api:127.0.0.1"}) || code != exitChange {
		t.Errorf("of a suspended job: due %+v, overrides %+v", p.Due, p.Overrides)
	}
	r.fine(t, "jobs", "suspend", "hello", "--until", "1h")
	if _, p, _ = plan(hourly); len(p.Due) != 1 || len(p.Overrides) != 1 || p.Overrides[0].Until.IsZero() {
		t.Errorf("of one that is suspended for an hour: due %+v, overrides %+v", p.Due, p.Overrides)
	}
	db, err := sql.Open("sqlite", r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE lockstep_jobs SET suspended=0, suspended_by='ann', suspended_until=0 WHERE name='hello'"); err != nil { // as an older program resumed it
		t.Fatal(err)
	}
	suspended := strings.Replace(hourly, "hello: {", "hello: {suspend: true, ", 1)
	if _, p, _ = plan(suspended); len(p.Due) != 1 || p.Due[0].New+p.Due[0].Moved < 23 || len(p.Overrides) != 1 || p.Overrides[0] != (override{Job: "hello", Defined: true, By: "ann"}) {
		t.Errorf("of one that was resumed: due %+v, overrides %+v", p.Due, p.Overrides)
	}
	if _, p, _ = plan(hourly); len(p.Overrides) > 0 {
		t.Errorf("an override that the file agrees with: %+v", p.Overrides)
	}
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte(suspended), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.fine(t, "plan", file, "--server", r.url); !strings.Contains(got, "'scheduler jobs resume JOB --reset' removes one\nJOB     FILE        HOLDS    UNTIL(UTC)   BY\nhello   suspended   active   -            ann\n") {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "get", "hello"); !strings.Contains(got, "active, by ann; this would hold over a later suspend: true of the file, too: 'scheduler jobs resume hello --reset' has the definition hold again\n") {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "resume", "hello"); got != "hello is active, as configured\n" {
		t.Error(got)
	}
}
