package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func TestJobsCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	like(t, "JOB     SCHEDULE    NEXT…   LAST   RESULT   OPEN\n"+
		"fails   -           -…   -      -        -\n"+
		"hello   0 0 1 1 *   in …d   -      -        -\n"+
		"waits   -           -…   -      -        -\n", r.fine(t, "jobs", "list"))
	list := decodeJSON[[]wire.Job](t, r.fine(t, "jobs", "list", "-o", "json"))
	if len(list) != 3 || list[1].Name != "hello" || list[1].NextAt.IsZero() {
		t.Errorf("%+v", list)
	}
	var asYAML []struct{ Name, Description string }
	if err := yaml.Unmarshal([]byte(r.fine(t, "jobs", "list", "-o", "yaml")), &asYAML); err != nil || len(asYAML) != 3 || asYAML[1].Description != "Says hello" {
		t.Errorf("%v %v", asYAML, err)
	}

	like(t, "hello is suspended, by api:127.0.0.1\n", r.fine(t, "jobs", "suspend", "hello"))
	if got := r.fine(t, "jobs", "list"); !strings.Contains(got, "suspended") {
		t.Error(got)
	}
	like(t, "hello is active, as configured\n", r.fine(t, "jobs", "resume", "hello"))
	r.fine(t, "jobs", "suspend", "hello")
	like(t, "hello is active, as configured\n", r.fine(t, "jobs", "suspend", "hello", "--reset"))
	like(t, "job:          hello\n"+
		"description:  Says hello\n"+
		"state:        active, as configured\n"+
		"schedule:     0 0 1 1 *\n"+
		"timezone:     UTC\n"+
		"ends at:      2999-01-01T00:00:00Z\n"+
		"next:         …-01-01 00:00:00 UTC (in …d)\n"+
		"pool:         default\n"+
		"timeout:      24h0m0s\n"+
		"concurrency:  forbid\n"+
		"on lost:      fail\n"+
		"catch up:     latest of the last 24h0m0s; late after 10s\n"+
		"retries:      none\n"+
		"priority:     -3\n"+
		"labels:       team=infra\n"+
		"params:       {\"properties\":{\"n\":{\"type\":\"integer\"}},\"type\":[\"null\",\"object\"]}\n"+
		"definition:   …, of configuration 1, governs since … UTC\n", r.fine(t, "jobs", "get", "hello"))

	code, stdout, stderr := r.scheduler(t, "", "jobs", "get", "nope")
	if code != exitFailed || stdout != "" || stderr != "scheduler: there is no job \"nope\"\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "jobs", "get", "a b/c"); code != exitFailed || stderr != "scheduler: there is nothing called \"a b/c\"; names have up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit\n" {
		t.Errorf("%d %q", code, stderr)
	}
}

// Shell completion lists the names of jobs and pools of the replica; none if it does not answer.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	for line, want := range map[string]string{
		"jobs run ":         "fails\nhello\nwaits\n:4\n",
		"jobs get he":       "hello\n:4\n",
		"jobs suspend w":    "waits\n:4\n",
		"jobs run hello ":   ":4\n",
		"pools pause def":   "default\n:4\n",
		"pools set m":       "mail\n:4\n",
		"tasks enqueue def": "default\n:4\n",
	} {
		args := strings.Split("__complete "+line, " ")
		if code, got, _ := r.scheduler(t, "", args...); code != exitFine || got != want {
			t.Errorf("%s: exit code %d, %q; want %q", line, code, got, want)
		}
	}
	if got := call(t, nil, "__complete", "--server", "http://127.0.0.1:1", "jobs", "run", ""); got.code != exitFine || got.stdout != ":4\n" {
		t.Errorf("where no replica answers: %+v", got)
	}
}

// TestRunFollow: following a run, and waiting for a task, prints the output of every attempt, and the exit code is the task's.
func TestRunFollow(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	code, stdout, stderr := r.scheduler(t, "", "jobs", "run", "hello", "--follow")
	if code != exitFine || stdout != "hello \x1b[31mworld\n" || !strings.Contains(stderr, ": succeeded\n") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr = r.scheduler(t, `{"n": 7}`, "jobs", "run", "hello", "--payload", "-", "--wait"); code != exitFine || stdout != "hello \x1b[31mworld{\"n\":7}\n" {
		t.Errorf("with a payload: %d %q %q", code, stdout, stderr)
	}
	if code, _, stderr = r.scheduler(t, "", "jobs", "run", "hello", "--payload", `{"n":"x"}`, "-w"); code != exitFailed || !strings.Contains(stderr, "payload/n: got string, want integer, by the job's params") {
		t.Errorf("with a wrong payload: %d %q", code, stderr)
	}
	if code, _, stderr = r.scheduler(t, "", "jobs", "run", "hello", "--payload", `{"n":1}`, "--force"); code != exitUsage || !strings.Contains(stderr, "has to name the lost attempt") {
		t.Errorf("the payload would not be used: %d %q", code, stderr)
	}
	if code, _, stderr = r.scheduler(t, "", "jobs", "run", "hello", "--payload", `{"n":`); code != exitUsage || !strings.Contains(stderr, "--payload: not JSON") {
		t.Errorf("with half a payload: %d %q", code, stderr)
	}
	code, stdout, stderr = r.scheduler(t, "", "jobs", "run", "fails", "-f")
	if code != exitFailed || stdout != "try 1\ntry 2\n" || strings.Count(stderr, "exit status 3") != 1 || !strings.HasSuffix(stderr, "scheduler: the run did not succeed: failed\n") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ = r.scheduler(t, "", "jobs", "run", "fails", "-f", "-o", "json")
	if got := decodeJSON[wire.Task](t, stdout); code != exitFailed || got.Task.State != jobs.StateFailed || len(got.Attempts) != 1 {
		t.Errorf("%d %s", code, stdout)
	}

	code, stdout, stderr = r.scheduler(t, "", "tasks", "enqueue", "mail", "--payload", `{"n":1}`, "--idempotency-key", "waited", "--wait")
	if code != exitFine || stdout != "mail {\"n\":1}\n" || !strings.Contains(stderr, ": succeeded\n") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ = r.scheduler(t, "", "tasks", "enqueue", "mail", "--payload", `{"n":1}`, "--idempotency-key", "waited", "-w", "-o", "json")
	if got := decodeJSON[wire.Task](t, stdout); code != exitFine || got.Task.State != jobs.StateSucceeded {
		t.Errorf("of a task that exists: %d %s", code, stdout)
	}

	id := strings.TrimSpace(r.fine(t, "jobs", "run", "waits"))
	if code, _, stderr := r.scheduler(t, "", "jobs", "run", "waits"); code != exitFailed || !strings.Contains(stderr, id) {
		t.Errorf("a second run while the first has the slot: %d %q", code, stderr)
	}
	followed := make(chan string, 1)
	go func() {
		code, _, stderr := r.scheduler(t, "", "tasks", "logs", id, "--follow")
		followed <- fmt.Sprint(code, " ", stderr)
	}()
	like(t, id+" was asked to stop\n", r.fine(t, "tasks", "cancel", id))
	if got := <-followed; !strings.HasPrefix(got, "0 ") || !strings.Contains(got, "cancelled") {
		t.Errorf("followed to: %s", got)
	}
	if code, _, _ := r.scheduler(t, "", "tasks", "cancel", id); code != exitFailed {
		t.Error("cancelled twice")
	}

	triggers := decodeJSON[[]jobs.Trigger](t, r.fine(t, "triggers", "list", "-o", "json", "--since", "1h"))
	if len(triggers) != 6 || triggers[5].Job != "hello" || triggers[5].Result != jobs.StateSucceeded || triggers[4].By != "api:127.0.0.1" {
		t.Errorf("%+v", triggers)
	}
	if got := r.fine(t, "triggers", "list", "--outcome", "skipped"); !strings.Contains(got, "waits ") || strings.Count(got, "\n") != 2 {
		t.Errorf("skipped: %s", got)
	}
	if _, _, stderr := r.scheduler(t, "", "triggers", "list", "--limit", "2"); stderr != "Only the latest 2 are shown; see --limit.\n" {
		t.Errorf("%q", stderr)
	}
	if code, _, stderr := r.scheduler(t, "", "triggers", "list", "--outcome", "x"); code != exitFailed || !strings.Contains(stderr, "outcome: must be one of ran, skipped") {
		t.Errorf("%d %q", code, stderr)
	}
	close(r.release)
}

func TestTasksCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	file := filepath.Join(t.TempDir(), "letter.json")
	if err := os.WriteFile(file, []byte(` {"n": 1e400} `), 0o600); err != nil {
		t.Fatal(err)
	}
	first := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail", "--payload", "@"+file, "--idempotency-key", "k1", "--tag", "a", "--tag", "b c", "--priority", "-5"))
	code, stdout, stderr := r.scheduler(t, "{\"n\":1e400}", "tasks", "enqueue", "mail", "--payload", "-", "--idempotency-key", "k1")
	if code != exitFine || strings.TrimSpace(stdout) != first || stderr != "A task with this idempotency key exists already.\n" {
		t.Errorf("the same key: %d %q %q", code, stdout, stderr)
	}
	if got := r.fine(t, "tasks", "logs", first, "--follow"); got != "mail {\"n\":1e400}\n" {
		t.Errorf("%q", got)
	}
	if got := r.fine(t, "tasks", "logs", first, "--attempt", "1"); got != "mail {\"n\":1e400}\n" {
		t.Errorf("%q", got)
	}
	task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", first, "-o", "json")).Task
	if task.State != jobs.StateSucceeded || task.Priority != -5 || strings.Join(task.Tags, "|") != "a|b c" {
		t.Errorf("%+v", task)
	}
	if got := r.fine(t, "tasks", "get", first); !strings.Contains(got, "state:     succeeded\n") || !strings.Contains(got, "tags:      a, b c\n") {
		t.Error(got)
	}
	again := strings.TrimSpace(r.fine(t, "tasks", "retry", first))
	if task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", again, "-o", "json")).Task; again == first || task.RetryOf != first {
		t.Errorf("%+v", task)
	}

	later := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail", "--run-at", "2h"))
	if task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", later, "-o", "json")).Task; time.Until(task.RunAt).Round(time.Minute) != 2*time.Hour {
		t.Errorf("run at %v", task.RunAt)
	}
	like(t, later+" is changed\n", r.fine(t, "tasks", "update", later, "--priority", "7", "--payload", `{"n":2}`, "--tag", "x", "--run-at", "3h"))
	if task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", later, "-o", "json")).Task; task.Priority != 7 || compacted(t, task.Payload) != `{"n":2}` ||
		strings.Join(task.Tags, "|") != "x" || time.Until(task.RunAt).Round(time.Minute) != 3*time.Hour {
		t.Errorf("changed to %+v", task)
	}
	if task := decodeJSON[jobs.Task](t, r.fine(t, "tasks", "update", later, "--no-tags", "-o", "json")); len(task.Tags) > 0 || task.Priority != 7 {
		t.Errorf("changed to %+v", task)
	}
	if task := decodeJSON[jobs.Task](t, r.fine(t, "tasks", "update", later, "--max-attempts", "4", "--timeout", "90s", "--backoff", "2s", "-o", "json")); task.MaxAttempts != 4 ||
		task.Timeout != jobs.Duration(90*time.Second) || task.Backoff != jobs.Duration(2*time.Second) {
		t.Errorf("changed to %+v", task)
	}
	if task := decodeJSON[jobs.Task](t, r.fine(t, "tasks", "update", later, "--max-attempts", "0", "--timeout", "0s", "--backoff", "0s", "-o", "json")); task.MaxAttempts == 4 ||
		task.MaxAttempts == 0 || task.Timeout != 0 || task.Backoff != 0 {
		t.Errorf("changed to %+v", task)
	}
	like(t, later+" is cancelled\n", r.fine(t, "tasks", "cancel", later))
	if code, _, stderr := r.scheduler(t, "", "tasks", "update", later, "--priority", "1"); code != exitFailed || !strings.Contains(stderr, "has ended as cancelled, and only a pending one is changed") {
		t.Errorf("of an ended task: %d %q", code, stderr)
	}
	soon := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail", "--payload", "1", "--run-at", "2h"))
	r.fine(t, "tasks", "update", soon, "--run-at", "now", "--payload", "3")
	if got := r.fine(t, "tasks", "logs", soon, "--follow"); got != "mail 3\n" {
		t.Errorf("moved to now: %q", got)
	}

	var lines strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&lines, "{\"payload\":%d,\"idempotency_key\":\"line-%d\"}\n\n", i, i)
	}
	code, stdout, stderr = r.scheduler(t, lines.String(), "tasks", "enqueue", "mail", "--many", "--kind", "bye")
	if ids := strings.Fields(stdout); code != exitFine || len(ids) != 1500 {
		t.Errorf("%d, %d ids, %q", code, len(ids), stderr)
	}
	listed := decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--pool", "mail", "--limit", "0", "-o", "json"))
	bye := 0
	for _, task := range listed {
		if task.Kind == "bye" {
			bye++
		}
	}
	if bye != 1500 || len(listed) != 1504 {
		t.Errorf("%d tasks, %d of them from the lines", len(listed), bye)
	}
	if got := r.fine(t, "tasks", "list", "--limit", "3"); strings.Count(got, "\n") != 4 || !strings.HasPrefix(got, "TASK ") {
		t.Error(got)
	}
	code, _, stderr = r.scheduler(t, strings.Repeat("{}\n", 1000)+"{\"paylod\":1}\n", "tasks", "enqueue", "mail", "--many")
	if code != exitFailed || !strings.Contains(stderr, "line 1001: ") || !strings.Contains(stderr, "paylod") || !strings.Contains(stderr, "Lines up to 1000 were enqueued") {
		t.Errorf("%d %q", code, stderr)
	}
	code, _, stderr = r.scheduler(t, "{}\n{bad\n", "tasks", "enqueue", "mail", "--many")
	if code != exitFailed || !strings.Contains(stderr, "line 2: ") || !strings.Contains(stderr, "No line was enqueued") {
		t.Errorf("%d %q", code, stderr)
	}
	code, _, stderr = r.scheduler(t, "{}\n\n{\"priority\":101}\n", "tasks", "enqueue", "mail", "--many")
	if code != exitFailed || !strings.Contains(stderr, "line 3: priority: ") || strings.Contains(stderr, "[1]") {
		t.Errorf("%d %q", code, stderr)
	}
	for line, want := range map[string]string{
		`{"priority":1,"priority":2}`:           `line 2: the key "priority" is given twice`,
		`{"PRIORITY":1}`:                        `line 2: PRIORITY: unknown key "PRIORITY"`,
		`{"max_attempts":0}`:                    `line 2: max_attempts: 0 is out of range`,
		`{"timeout":"0s"}`:                      `line 2: timeout: 0s is out of range`,
		`{"tags":"x"}`:                          `line 2: tags: must be a list of texts`,
		`{"kind":"gone"}`:                       `line 2: kind: `,
		`{"expires_at":"2001-01-01T00:00:00Z"}`: `line 2: expires_at: `,
		`[1]`:                                   `line 2: must be a JSON object`,
		`{"kind":"bye"} {}`:                     `line 2: text after the JSON object`,
	} {
		if code, _, stderr := r.scheduler(t, "\n"+line+"\n", "tasks", "enqueue", "mail", "--many"); code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "No line was enqueued") {
			t.Errorf("%s: %d %q, want %q", line, code, stderr, want)
		}
	}
	if _, _, stderr = r.scheduler(t, "", "tasks", "enqueue", "mail", "--run-at", "soon"); !strings.Contains(stderr, "a duration, such as 10m") {
		t.Error(stderr)
	}

	for args, want := range map[string]int{
		"tasks enqueue nope":                            exitFailed,
		"tasks list --pool nope":                        exitFailed,
		"tasks list --job nope":                         exitFailed,
		"triggers list --job nope":                      exitFailed,
		"tasks enqueue mail --payload {":                exitUsage,
		"tasks enqueue mail --payload @/nope":           exitUsage,
		"tasks enqueue mail --run-at soon":              exitUsage,
		"tasks enqueue mail --priority 101":             exitFailed,
		"tasks enqueue mail --many --idempotency-key x": exitUsage,
		"tasks enqueue mail --many --wait":              exitUsage,
		"tasks enqueue":                                 exitUsage,
		"tasks get nope":                                exitFailed,
		"tasks logs nope --follow":                      exitFailed,
		"tasks logs " + again + " -f --attempt 1":       exitUsage,
		"tasks logs " + again + " -o json":              exitUsage,
		"tasks list --limit -1":                         exitUsage,
		"tasks update " + again:                         exitUsage,
		"tasks update " + again + " --priority 1":       exitFailed,
		"tasks update " + again + " --tag a --no-tags":  exitUsage,
		"tasks update " + again + " --run-at soon":      exitUsage,
		"tasks update " + again + " --timeout soon":     exitUsage,
		"tasks update " + again + " --max-attempts x":   exitUsage,
		"tasks update " + again + " --payload {":        exitUsage,
		"tasks update " + again + " --payload ''":       exitUsage,
		"tasks update nope --priority 1":                exitFailed,
		"tasks list --state done":                       exitFailed,
		"tasks list -o xml":                             exitUsage,
		"pools pause nope":                              exitFailed,
		"jobs suspend nope":                             exitFailed,
		"triggers list --since yesterday":               exitUsage,
		"replicas list --server 127.0.0.1:1":            exitFailed,
		"replicas list --server ftp://127.0.0.1":        exitUsage,
		"replicas list --server http://127.0.0.1:1/x":   exitFailed,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want || stderr == "" {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, stderr)
		}
	}
}

// TestForcedTasks: a task that no live replica can run is refused and not added, unless it is forced: alone, in a line of many
// and as a retry.
func TestForcedTasks(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	refused := func(stdin string, args ...string) string {
		t.Helper()
		code, stdout, stderr := r.scheduler(t, stdin, args...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, "kind") || !strings.Contains(stderr, `"nope"`) {
			t.Errorf("%v: %d %q %q", args, code, stdout, stderr)
		}
		return stderr
	}
	forced := func(stdin string, args ...string) (ids []string) {
		t.Helper()
		code, stdout, stderr := r.scheduler(t, stdin, args...)
		if ids = strings.Fields(stdout); code != exitFine || len(ids) == 0 {
			t.Fatalf("%v: %d %q %q", args, code, stdout, stderr)
		}
		task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", ids[len(ids)-1], "-o", "json")).Task
		if task.Kind != "nope" || task.State != jobs.StatePending {
			t.Errorf("%v: %+v", args, task)
		}
		return ids
	}
	const line, forcedLine, unforcedLine = `{"kind":"nope"}`, `{"kind":"nope","force":true}`, `{"kind":"nope","force":false}`
	refused("", "tasks", "enqueue", "mail", "--kind", "nope")
	id := forced("", "tasks", "enqueue", "mail", "--kind", "nope", "--force")[0]

	many := []string{"tasks", "enqueue", "mail", "--many"}
	if said := refused("{}\n"+line+"\n", many...); !strings.Contains(said, "line 2: ") || !strings.Contains(said, "No line was enqueued") {
		t.Error(said)
	}
	if ids := forced("{}\n"+forcedLine+"\n", many...); len(ids) != 2 {
		t.Error(ids)
	}
	if said := refused(forcedLine+"\n"+line+"\n", many...); !strings.Contains(said, "line 2: ") {
		t.Error(said)
	}
	forced(line+"\n", append(many, "--force")...)
	refused(unforcedLine+"\n", append(many, "--force")...)

	r.fine(t, "tasks", "cancel", id)
	refused("", "tasks", "retry", id)
	refused("", "tasks", "retry", id, "--force=false")
	if got := r.fine(t, "tasks", "retry", "--pool", "mail", "--state", "cancelled", "--yes", "--force=false"); !strings.HasPrefix(got, "0 tasks were retried\nskipped: 1, ") {
		t.Error(got)
	}
	again := forced("", "tasks", "retry", id, "--force")[0]
	if task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", again, "-o", "json")).Task; again == id || task.RetryOf != id {
		t.Errorf("%+v", task)
	}
	if all := decodeJSON[[]jobs.Task](t, r.fine(t, "tasks", "list", "--limit", "0", "-o", "json")); len(all) != 5 {
		t.Errorf("there are %d tasks, want 5: %+v", len(all), all)
	}
}

func TestPoolsReplicasLocksCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	like(t, "POOL      STATE    WORKERS   MAX   RATE   PER-KIND     PER-KEY                  ORDER   RUNNING   PENDING   SCHEDULED   OLDEST\n"+
		"default   active   10        -     -      -            -                        -       -         -         -           -\n"+
		"keyed     active   10        -     -      -            max 1, 1000/s burst 10   key     -         -         -           -\n"+
		"mail      active   4         20    -      bye: max 3   -                        -       -         -         -           -\n", r.fine(t, "pools", "list"))
	like(t, "mail is paused\n", r.fine(t, "pools", "pause", "mail"))
	id := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail"))
	if pools := decodeJSON[[]wire.Pool](t, r.fine(t, "pools", "list", "-o", "json")); !pools[2].Paused || pools[2].PausedBy != "api:127.0.0.1" || pools[2].Pending != 1 {
		t.Errorf("%+v", pools)
	}
	like(t, "mail is active\n", r.fine(t, "pools", "resume", "mail", "--reset"))
	r.fine(t, "tasks", "logs", id, "--follow") // ends only if the pool goes on

	if got := r.fine(t, "replicas", "list"); !strings.Contains(got, "r1        live    ") {
		t.Error(got)
	}
	if code, _, stderr := r.scheduler(t, "", "locks", "list"); code != exitFailed || !strings.Contains(stderr, "no lock service") {
		t.Errorf("%d %q", code, stderr)
	}
}

// TestPoolsSet: limits are set one by one and cleared together, and the list marks them. Wrong usage sends nothing.
func TestPoolsSet(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	const note = "* set by 'scheduler pools set' in place of the configuration, until --reset\n"
	list := func(mail, note string) {
		t.Helper()
		code, stdout, stderr := r.scheduler(t, "", "pools", "list")
		if got := strings.Join(strings.Fields(stdout[strings.Index(stdout, "\nmail")+1:]), " "); code != exitFine || got != mail || stderr != note {
			t.Errorf("%d %q, want %q; %q, want %q", code, got, mail, stderr, note)
		}
	}
	for _, step := range []struct{ args, says, list string }{
		{"--max-running 5 --rate 100/s --burst 20", "max running 5, rate 100/s burst 20, per kind bye: max 3, by api:127.0.0.1", "5* 100/s burst 20*"},
		{"--rate 10/s", "max running 5, rate 10/s burst 20, per kind bye: max 3, by api:127.0.0.1", "5* 10/s burst 20*"},
		{"--reset", "max running 20, per kind bye: max 3, as configured", "20 -"},
		{"--max-running 5", "max running 5, per kind bye: max 3, by api:127.0.0.1", "5* -"},
		{"--max-running 0 --rate 1/h", "rate 1/h, per kind bye: max 3, by api:127.0.0.1", "0* 1/h*"},
		{"--rate 0 --burst 0", "per kind bye: max 3, by api:127.0.0.1", "0* 0*"},
		{"--rate 20/10s --reset=false", "rate 20/10s, per kind bye: max 3, by api:127.0.0.1", "0* 20/10s*"},
		{"--reset", "max running 20, per kind bye: max 3, as configured", "20 -"},
		{"--burst 7", "max running 20, burst 7, per kind bye: max 3, by api:127.0.0.1", "20 burst 7*"},
	} {
		want := note
		if step.args == "--reset" {
			want = ""
		}
		like(t, "mail is active; limits: "+step.says+"\n", r.fine(t, append([]string{"pools", "set", "mail"}, strings.Fields(step.args)...)...))
		list("mail active 4 "+step.list+" bye: max 3 - - - - - -", want)
	}
	pool := decodeJSON[wire.Pool](t, r.fine(t, "pools", "set", "mail", "--rate", "1/s", "-o", "json"))
	if pool.Limits == nil || pool.Limits.MaxRunning != nil || pool.Limits.Rate.String() != "1/s" || *pool.Limits.Burst != 7 || pool.LimitsBy != "api:127.0.0.1" {
		t.Errorf("%+v", pool)
	}
	if code, stdout, stderr := r.scheduler(t, "", "pools", "list", "-o", "json"); code != exitFine || stderr != "" || !strings.Contains(stdout, `"limits_override": {`) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	r.fine(t, "pools", "set", "mail", "--reset")
	id := strings.TrimSpace(r.fine(t, "tasks", "enqueue", "mail"))
	r.fine(t, "tasks", "logs", id, "--follow")

	if code, _, stderr := r.scheduler(t, "", "pools", "set", "nope", "--burst", "1"); code != exitFailed || !strings.Contains(stderr, `"nope"`) {
		t.Errorf("%d %q", code, stderr)
	}
	away := &running{url: "http://127.0.0.1:1"}
	for args, says := range map[string]string{
		"mail":                                        "nothing to set: give --max-running, --rate, --burst, --per-key-max-running,",
		"mail --reset=false":                          "nothing to set",
		"mail --reset --burst 0":                      "--reset removes all limits that were set: give it alone",
		"mail --reset --rate 1/s":                     "--reset removes all limits that were set: give it alone",
		"mail --rate fast":                            `--rate: "fast" is not a rate; write it as in 50/s`,
		"mail --rate 0/s":                             "the number is out of range; allowed: 1 to 1000000",
		"mail --max-running many":                     `--max-running "many": must be a whole number`,
		"mail --max-running -1":                       "--max-running: -1 is out of range 0–1000000",
		"mail --burst 1000001":                        "--burst: 1000001 is out of range 0–1000000",
		"mail --burst 367 --rate 1/d":                 "--burst: 367 takes longer than a year to fill at 1/d; use at most 366",
		"--burst 1":                                   "POOL is missing",
		"mail --per-key-rate fast":                    `--per-key-rate: "fast" is not a rate`,
		"mail --per-key-rate 1/d --per-key-burst 367": "--per-key-burst: 367 takes longer than a year to fill at 1/d; use at most 366",
		"mail --per-kind bye":                         "must be KIND:LIMIT=N, as in mail:max_running=2,rate=10/s,burst=1",
		"mail --per-kind bye:max=1":                   `has no limit "max"; name max_running, rate or burst`,
		"mail --per-kind bye:rate":                    "rate has no value; write it as in rate=2",
		"mail --per-kind bye:burst=x":                 "burst: must be a whole number, or none",
		"mail --per-kind bye:max_running=-1":          "--per-kind bye.max_running: -1 is out of range 0–1000000",
		"mail --weight acme":                          "must be KEY=N, as in acme=3",
		"mail --weight a=b=x":                         "the weight of a=b must be a whole number, 1 to 1000",
		"mail --weight acme=0":                        "--weight acme: 0 is out of range 1–1000",
		"mail --order none":                           "--order: the order of a pool, and whether its keys share it, are not set while it runs; change the configuration",
		"mail --reset=order":                          `--reset: has no field "order"; name max_running, rate, burst,`,
		"mail --reset --reset=rate":                   "--reset removes all limits that were set: give it alone",
		"mail --rate 1/s --burst":                     "--burst has no value",
		"mail --max-runing 5 --rate= 1":               "did you mean --max-running?",
	} {
		code, stdout, stderr := away.scheduler(t, "", append([]string{"pools", "set"}, strings.Fields(args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: %d %q %q, want %q", args, code, stdout, stderr, says)
		}
	}
}

// TestPoolsSetByKey: limits by key and by kind, and weights, are set, shown, and reset one by one; what the definition does not go with is refused.
func TestPoolsSetByKey(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	for _, step := range []struct{ args, says, list string }{
		{"mail --per-key-max-running 2 --per-key-rate 5/s --per-key-burst 3", "mail is active; limits: max running 20, per key max 2, 5/s burst 3, per kind bye: max 3, by api:127.0.0.1", "20 - bye: max 3 max 2, 5/s burst 3* -"},
		{"mail --per-kind bye:max_running=none,rate=1/m,burst=2", "mail is active; limits: max running 20, per key max 2, 5/s burst 3, per kind bye: 1/m burst 2, by api:127.0.0.1", "20 - bye: 1/m burst 2* max 2, 5/s burst 3* -"},
		{"mail --per-key-max-running none --per-key-rate none --reset=per_kind.bye.rate,per_key.burst", "mail is active; limits: max running 20, per kind bye: burst 2, by api:127.0.0.1", "20 - bye: burst 2* 0* -"},
		{"mail --reset=per_key --reset=per_kind.bye.max_running", "mail is active; limits: max running 20, per kind bye: max 3, burst 2, by api:127.0.0.1", "20 - bye: max 3, burst 2* - -"},
		{"mail --reset", "mail is active; limits: max running 20, per kind bye: max 3, as configured", "20 - bye: max 3 - -"},
	} {
		like(t, step.says+"\n", r.fine(t, append([]string{"pools", "set"}, strings.Fields(step.args)...)...))
		stdout := r.fine(t, "pools", "list")
		if got := strings.Join(strings.Fields(stdout[strings.Index(stdout, "\nmail")+1:]), " "); !strings.HasPrefix(got, "mail active 4 "+step.list+" - - -") {
			t.Errorf("%s: %q, want %q", step.args, got, step.list)
		}
	}
	for args, says := range map[string]string{
		"mail --weight acme=3":                  "fair.weights: the keys of the pool do not share it; write fair into its definition first",
		"mail --per-kind nope:max_running=1":    `per_kind.nope: the pool has no kind "nope"; name one of its kinds`,
		"keyed --per-key-max-running 2":         "per_key.max_running: with order: key the tasks of one key run one after the other; remove it, or write order: none",
		"keyed --per-kind nope:max_running=1/s": "must be a whole number",
	} {
		code, stdout, stderr := r.scheduler(t, "", append([]string{"pools", "set"}, strings.Fields(args)...)...)
		if code == exitFine || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: %d %q %q, want %q", args, code, stdout, stderr, says)
		}
	}
}

// A number of tasks that was not counted to its end is marked as such.
func TestTasksThatAreNotCounted(t *testing.T) {
	for want, p := range map[string]wire.Pool{
		"≥10000 ": {Pending: 10_000, Approximate: true}, " ≥12000": {Scheduled: 12_000, Approximate: true}, "9999 10000": {Pending: 9_999, Scheduled: 10_000}, "3 ": {Pending: 3, Approximate: true},
	} {
		if got := atLeast(p, p.Pending) + " " + atLeast(p, p.Scheduled); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestUnreachableReplica: the message names the address and the advice.
func TestUnreachableReplica(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := &running{url: "http://" + l.Addr().String()}
	code, stdout, stderr := r.scheduler(t, "", "jobs", "list")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, r.url) || !strings.Contains(stderr, "scheduler serve") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for environ, ok := range map[string]bool{"LOCKSTEP_API_TOKEN_FILE=" + file: true, "LOCKSTEP_API_TOKEN_FILE=/nope": false, "LOCKSTEP_API_TOKEN=x": true} {
		a := &app{environ: []string{environ}}
		if _, err := a.remote(); (err == nil) != ok {
			t.Errorf("%s: %v", environ, err)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestForcedRun: a run that is refused because a lost attempt may still run starts with the --force of the refusal, and
// with no other. A running one is not overridden.
func TestForcedRun(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	db, err := sql.Open("sqlite", r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	until := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
	if _, err := db.ExecContext(t.Context(), "UPDATE lockstep_jobs SET busy_until=? WHERE name='waits'", until.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	over := until.Format(time.RFC3339Nano) // nothing says which task it was
	for _, force := range []string{"", "--force", "--force=another"} {
		code, _, stderr := r.scheduler(t, "", slices.DeleteFunc([]string{"jobs", "run", "waits", force}, func(arg string) bool { return arg == "" })...)
		if code != exitFailed || !strings.Contains(stderr, "a lost attempt may run until ") || !strings.HasSuffix(stderr, "start it now: scheduler jobs run waits --force="+over+"\n") {
			t.Fatalf("%s: %d %q", force, code, stderr)
		}
	}
	if code, _, stderr := r.scheduler(t, "", "jobs", "run", "waits", "--force", over); code != exitUsage || !strings.Contains(stderr, "write --force="+over) {
		t.Errorf("with a blank: %d %q", code, stderr)
	}
	id := strings.TrimSpace(r.fine(t, "jobs", "run", "waits", "--force="+over))
	if code, _, stderr := r.scheduler(t, "", "jobs", "run", "waits", "--force="+over); code != exitFailed || !strings.Contains(stderr, "cancel it first: scheduler tasks cancel "+id) {
		t.Errorf("over one that runs: %d %q", code, stderr)
	}
	if got := r.fine(t, "triggers", "list", "--job", "waits"); !strings.Contains(got, "forced although a lost attempt may run until ") {
		t.Error(got)
	}
	close(r.release)
}

func compacted(t *testing.T, text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
