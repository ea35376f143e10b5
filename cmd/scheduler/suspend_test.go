package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestSuspendCommands: one job is suspended until a time, several by their labels, and the next due times are skipped; what is ambiguous is
// wrong usage.
func TestSuspendCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	job := func(name string) wire.Job {
		t.Helper()
		return decodeJSON[wire.Job](t, r.fine(t, "jobs", "get", name, "-o", "json"))
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if got := r.fine(t, "jobs", "suspend", "hello", "--until", until.Format(time.RFC3339)); got != "hello is suspended until "+until.Format(time.RFC3339)+", by api:127.0.0.1\n" {
		t.Error(got)
	}
	if is := job("hello"); !is.Suspended || !is.SuspendedUntil.Equal(until) {
		t.Errorf("%+v", is)
	}
	if got := r.fine(t, "jobs", "list"); !strings.Contains(got, "suspended until "+utc(until)+" UTC") {
		t.Error(got)
	}
	r.fine(t, "jobs", "suspend", "hello", "--until", "30m")
	if is := job("hello").SuspendedUntil; is.Before(time.Now().Add(29*time.Minute)) || is.After(time.Now().Add(30*time.Minute)) {
		t.Errorf("in 30m is %v", is)
	}
	if got := r.fine(t, "jobs", "resume", "hello", "--reset"); got != "hello is active, as configured\n" {
		t.Error(got)
	}

	if got := r.fine(t, "jobs", "suspend", "--label", "team=infra"); got != "1 job would be suspended; add --yes to do it\n  hello\n" || job("hello").Suspended {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "suspend", "--label", "team=infra", "--yes", "--dry-run"); !strings.Contains(got, "would be") || job("hello").Suspended {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "suspend", "--label", "team=infra", "--yes"); got != "1 job: suspended\n  hello\n" || !job("hello").Suspended || job("fails").Suspended {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "resume", "--label", "team=infra", "--yes"); got != "1 job: resumed\n  hello\n" || job("hello").Suspended || job("hello").Override != nil {
		t.Error(got)
	}
	if got := decodeJSON[wire.SuspendedMany](t, r.fine(t, "jobs", "resume", "--label", "team=infra", "--reset", "--yes", "-o", "json")); got.Done != 1 || got.Matched != 1 || job("hello").Override != nil {
		t.Errorf("%+v", got)
	}
	if got := decodeJSON[wire.SuspendedMany](t, r.fine(t, "jobs", "suspend", "--label", "team=infra", "-o", "json")); !got.DryRun || got.Done != 1 || job("hello").Suspended {
		t.Errorf("a preview: %+v", got)
	}

	if got := r.fine(t, "jobs", "skip-next", "hello"); got != "hello skips its next due time, by api:127.0.0.1\n" {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "get", "hello"); !strings.Contains(got, "its next due time, by api:127.0.0.1") {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "skip-next", "hello", "-n", "3"); got != "hello skips its next 3 due times, by api:127.0.0.1\n" || job("hello").SkipNext != 3 {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "skip-next", "hello", "-n", "0"); got != "hello skips nothing\n" || job("hello").SkipNext != 0 {
		t.Error(got)
	}

	for line, want := range map[string]string{
		"jobs suspend":                              "which jobs? Name one JOB, or all with a --label NAME=VALUE",
		"jobs suspend hello --label team=infra":     "remove one of them",
		"jobs suspend hello --yes":                  "--yes and --dry-run are for the jobs of a --label",
		"jobs suspend hello --reset --until 1h":     "remove --until",
		"jobs suspend hello --until soon":           "--until: ",
		"jobs suspend --label team=none --yes":      "no job has these labels",
		"jobs suspend --label team":                 "write it as KEY=VALUE",
		"jobs suspend --label team= --yes":          "no job has these labels",
		"jobs resume --label team=a --label team=b": `cannot be both "a" and "b"`,
		"jobs resume hello --until 1h":              "until",
		"jobs suspend hello --label=":               "--label",
		"jobs skip-next":                            "JOB is missing",
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(line)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %q", line, code, stderr)
		}
	}
	if code, _, stderr := r.scheduler(t, "", "jobs", "suspend", "hello", "--until", "2001-01-01T00:00:00Z"); code != exitFailed || !strings.Contains(stderr, "has passed") {
		t.Errorf("%d %q", code, stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "jobs", "skip-next", "hello", "-n", "1001"); code != exitFailed || !strings.Contains(stderr, "from 0 to 1000") {
		t.Errorf("%d %q", code, stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "jobs", "skip-next", "fails"); code != exitFailed || !strings.Contains(stderr, `job "fails" has no schedule: it runs on demand, and has no due time to skip`) {
		t.Errorf("%d %q", code, stderr)
	}
	if got := r.fine(t, "jobs", "skip-next", "fails", "-n", "0"); got != "fails skips nothing\n" {
		t.Error(got)
	}
	close(r.release)
}

// TestPauseCommands: everything is paused and resumed, and who asks what holds something up is told why.
func TestPauseCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	want := ", until " + until + ": an upgrade"
	if got := r.fine(t, "pause", "--reason", "an upgrade", "--until", until); !strings.HasPrefix(got, "everything is paused by api:127.0.0.1 since ") || !strings.HasSuffix(got, want+"\n") {
		t.Error(got)
	}
	task := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail"))
	if got := r.fine(t, "tasks", "why", task); !strings.Contains(got, "paused") || !strings.Contains(got, want) {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "get", "hello"); !strings.Contains(got, want) {
		t.Error(got)
	}
	if _, _, stderr := r.scheduler(t, "", "pools", "list"); !strings.Contains(stderr, want+"; 'scheduler resume' resumes it\n") {
		t.Errorf("%q", stderr)
	}
	if got := r.fine(t, "resume"); got != "work starts again\n" {
		t.Error(got)
	}
	if got := r.fine(t, "resume"); !strings.HasPrefix(got, "nothing was paused as a whole; ") {
		t.Error(got)
	}
	if code, _, stderr := r.scheduler(t, "", "tasks", "logs", task, "--follow"); code != exitFine {
		t.Errorf("%d %q", code, stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "pools", "list"); code != exitFine || strings.Contains(stderr, "paused") {
		t.Errorf("%d %q", code, stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "pause", "--until", "2001-01-01T00:00:00Z"); code != exitFailed || !strings.Contains(stderr, "has passed") {
		t.Errorf("%d %q", code, stderr)
	}
	if code, _, _ := r.scheduler(t, "", "pause", "--until", "soon"); code != exitUsage {
		t.Error(code)
	}
	close(r.release)
}

// An override that keeps a job active says what it holds over.
func TestResumedJobsSayOverWhat(t *testing.T) {
	for want, j := range map[string]wire.Job{
		"active, by ann; its definition suspends it: 'scheduler jobs resume a --reset' has the definition hold again":     {Name: "a", Override: new(false), SuspendedBy: "ann", SuspendedDefined: new(true)},
		"active, overridden; its definition suspends it: 'scheduler jobs resume a --reset' has the definition hold again": {Name: "a", Override: new(false), SuspendedDefined: new(true)},
		"active, by ann":    {Name: "a", Override: new(false), SuspendedBy: "ann"}, // of an older replica
		"suspended, by ann": {Name: "a", Suspended: true, Override: new(true), SuspendedBy: "ann", SuspendedDefined: new(false)},
	} {
		if got := suspension(j); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
