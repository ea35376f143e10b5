package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
)

// failTasks has n tasks of the pool mail fail for good.
func (r *running) failTasks(t *testing.T, n int) {
	t.Helper()
	before := len(decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--pool", "mail", "--state", "failed", "--limit", "0", "-o", "json")))
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"kind\":\"fails\",\"payload\":%d}\n", i)
	}
	if code, _, stderr := r.scheduler(t, lines.String(), "tasks", "enqueue", "mail", "--many"); code != exitFine {
		t.Fatalf("%d %q", code, stderr)
	}
	await.Until(t, "the tasks have failed", func() bool {
		return len(decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--pool", "mail", "--state", "failed", "--limit", "0", "-o", "json"))) == before+n
	})
}

// TestBulkCommands: tasks of a filter are shown, retried once each, cancelled and deleted; what is no filter is wrong usage.
func TestBulkCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.failTasks(t, 12)
	r.fine(t, "pools", "pause", "mail")
	group := decodeJSON[[]wire.DeadLetters](t, r.fine(t, "tasks", "dead", "-o", "json"))[0].Fingerprint
	filter := []string{"--pool", "mail", "--fingerprint", group}
	result := func(args ...string) wire.BulkResult {
		t.Helper()
		return decodeJSON[wire.BulkResult](t, r.fine(t, append(args, "-o", "json")...))
	}
	preview := r.fine(t, append([]string{"tasks", "retry"}, filter...)...)
	if !strings.HasPrefix(preview, "12 tasks would be retried; add --yes to do it\n") || strings.Count(preview, "not retried: user ") != 10 {
		t.Error(preview)
	}
	if got := r.fine(t, append([]string{"tasks", "retry", "--yes", "--dry-run"}, filter...)...); got != preview {
		t.Error(got)
	}
	if got := result(append([]string{"tasks", "retry", "--yes", "--limit", "5"}, filter...)...); got.Done != 5 || got.Matched != 5 || len(got.Tasks) != 5 {
		t.Errorf("%+v", got)
	}
	if got := r.fine(t, append([]string{"tasks", "retry", "--yes"}, filter...)...); got != "7 tasks were retried\n" {
		t.Error(got)
	}
	got := r.fine(t, "tasks", "retry", "--yes", "--pool", "mail")
	if !strings.HasPrefix(got, "0 tasks were retried\nskipped: 12, such as ") || !strings.HasSuffix(got, ", which was retried before\n") {
		t.Error(got)
	}
	if got := result("tasks", "cancel", "--pool", "mail", "--state", "running", "--yes"); got.Matched != 0 {
		t.Errorf("%+v", got)
	}
	if got := result("tasks", "cancel", "--pool", "mail", "--kind", "fails", "--since", "1h", "--yes"); got.Done != 12 {
		t.Errorf("%+v", got)
	}
	if got := result("tasks", "purge", "--pool", "mail", "--until", "1h", "--yes"); got.Matched != 0 {
		t.Errorf("%+v", got)
	}
	if got := r.fine(t, "tasks", "purge", "--pool", "mail", "--state", "failed", "--yes"); got != "12 tasks were deleted\n" {
		t.Error(got)
	}
	if got := r.fine(t, "tasks", "purge", "--pool", "mail"); !strings.HasPrefix(got, "12 tasks would be deleted") {
		t.Error(got)
	}
	for args, want := range map[string]int{
		"tasks retry":                                          exitUsage,
		"tasks retry --yes":                                    exitUsage,
		"tasks retry --kind fails --yes":                       exitUsage,
		"tasks purge --state failed --yes":                     exitUsage,
		"tasks purge x":                                        exitUsage,
		"tasks retry 0197b2c1 --pool mail":                     exitUsage,
		"tasks retry --pool mail --state pending":              exitUsage,
		"tasks cancel --pool mail --state failed":              exitUsage,
		"tasks cancel --pool mail --fingerprint " + group:      exitUsage,
		"tasks retry --job fails --fingerprint " + group:       exitUsage,
		"tasks retry --pool mail --rate fast":                  exitUsage,
		"tasks retry --pool mail --limit -1":                   exitUsage,
		"tasks retry --pool mail --since soon":                 exitUsage,
		"tasks retry --pool mail --since 1h --until 2h":        exitUsage,
		"tasks retry --pool nothing":                           exitFailed,
		"tasks retry --pool mail --since 2h --until 1h":        exitFine,
		"tasks retry 01a2215c-e1d6-755a-8c05-3dd02985a2ca":     exitFailed,
		"tasks retry --pool mail --state succeeded --force":    exitFine,
		"tasks purge --job fails --state succeeded":            exitFine,
		"tasks cancel --pool mail --tag none --key none --yes": exitFine,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
	for args, want := range map[string]string{
		"tasks retry --pool mail --yes --force=01a2215c-e1d6-755a-8c05-3dd02985a2ca": "--force=01a2215c-e1d6-755a-8c05-3dd02985a2ca is about the lost attempt of one task, and these are many: write --force alone",
		"tasks retry 01a2215c-e1d6-755a-8c05-3dd02985a2ca --force=false":             ": not found",
		"tasks purge":                         "which tasks? Name those of a --pool or a --job",
		"tasks purge x":                       `unexpected argument "x"; tasks are deleted by --pool or --job and the other flags, not by their id`,
		"tasks retry":                         "which tasks? Name one TASK, or all of a --pool or a --job",
		"tasks retry --pool mail --state foo": `--state: retry is about tasks that are succeeded, failed, lost or cancelled, not "foo"`,
		"tasks retry --pool nothing --yes":    `scheduler: there is no pool "nothing"`,
		"tasks enqueue mail --kind nope":      `scheduler: kind: pool mail has no kind "nope"`,
		"tasks enqueue почта":                 "names have up to 64",
		"pools pause nope":                    "no replica has loaded a configuration with it; known are default, keyed, mail",
		"pools set nope --burst 1":            "no replica has loaded a configuration with it; known are default, keyed, mail",
	} {
		if _, _, stderr := r.scheduler(t, "", strings.Fields(args)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: %q, want %q", args, stderr, want)
		}
	}
}

// TestBulkStops: a rate holds, and Ctrl-C ends the command after a batch, says how far it came, and the same command goes on.
func TestBulkStops(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.failTasks(t, 6)
	r.fine(t, "pools", "pause", "mail")
	args := []string{"tasks", "retry", "--pool", "mail", "--yes", "--rate"}
	retried := func() int {
		return len(decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--pool", "mail", "--state", "pending", "-o", "json")))
	}
	cmd := exec.CommandContext(t.Context(), programs.Build(t, module), append(args, "1/h")...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+r.url)
	stopped := programs.Start(t, cmd)
	await.Until(t, "the first task is retried", func() bool { return retried() == 1 })
	stopped.Signal(t, syscall.SIGINT)
	if code, said := stopped.Exit(t, time.Minute), stopped.Log(); code != exitFailed || !strings.Contains(said, "1 task was retried; the same command goes on with what is left") {
		t.Errorf("%d %q", code, said)
	}
	began := time.Now()
	if got := r.fine(t, append(args, "4/s")...); !strings.HasPrefix(got, "5 tasks were retried\n") {
		t.Error(got)
	}
	if took := time.Since(began); took < 700*time.Millisecond { // a batch of 4, of which one was retried before, and then the rest
		t.Errorf("took %v", took)
	}
	if n := retried(); n != 6 {
		t.Errorf("%d are pending", n)
	}
}
