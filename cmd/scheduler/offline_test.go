package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
)

var update = flag.Bool("update", false, "write the golden files")

// noon is the tests' time: a day before London's clocks go forward.
var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

// result is the outcome of one call of the program.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the program as a shell would, at noon, with an environment of its own.
func call(t testing.TB, environ []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
		environ: environ, now: func() time.Time { return noon },
	}
	code := a.execute(t.Context(), args)
	return result{code, stdout.String(), stderr.String()}
}

const example = `version: 1
lock: {driver: redis, redis: {addrs: ["127.0.0.1:6379"]}}
pools:
  mail: {workers: 3, max_running: 20, rate: 50/s, burst: 200, command: [cat, a&b], kinds: {receipt: {command: [cat]}}, per_kind: {receipt: {max_running: 2, rate: 5/s}}}
  post: {rate: 100/m, per_key: {max_running: 1, rate: 5/s, burst: 10}, order: key, command: [cat]}
  slow: {command: [cat]}
jobs:
  nightly: {schedule: "30 1 * * *", timezone: Europe/London, labels: {team: infra, tier: "1"}, command: [echo, hello]}
  twice: {schedules: ["0 8 * * *", "0 20 * * *"], command: [echo], suspend: true}
  by-hand: {pool: mail, payload: {n: 1}}
  december: {schedule: "@daily", starts_at: 2026-12-01T00:00:00Z, ends_at: 2027-01-01T01:00:00+01:00, command: [echo]}
  spread: {schedule: "0 0 * * *", spread: 10m, jitter: 30s, command: [echo]}
  once: {schedule: "@at 2020-12-24T18:00:00+01:00", command: [echo]}
name: prod
`

// busy has jobs that are due at once.
const busy = `version: 1
jobs:
  a: {schedule: "*/10 * * * *", command: [echo]}
  b: {schedule: "*/20 * * * *", command: [echo]}
  c: {schedule: "*/15 * * * * *", command: [echo]}
`

// changed is example with changes.
const changed = `version: 1
store: {dsn: other.db}
server: {listen: "127.0.0.1:9090"}
lock: {driver: redis, redis: {addrs: ["127.0.0.1:6380"]}}
pools:
  mail: {workers: 4, max_running: 20, rate: 50/s, burst: 200, command: [cat, a&b], kinds: {fax: {command: [cat]}}}
  post: {rate: 100/m, per_key: {max_running: 1, rate: 5/s, burst: 10}, order: key, command: [cat]}
  fast: {command: [cat]}
jobs:
  nightly: {schedule: "45 1 * * *", timezone: Europe/London, timeout: 1h, command: [echo, bye]}
  twice: {schedules: ["0 8 * * *", "0 20 * * *"], command: [echo]}
  by-hand: {pool: mail, payload: {n: 2}}
  once: {schedule: "@at 2020-12-24T18:00:00+01:00", command: [echo], env: {PASSWORD: swordfish}}
  hourly: {schedule: "@hourly", command: [echo]}
name: prod
`

const exampleCalendars = `version: 1
calendars:
  holidays: {dates: [2026-03-30], timezone: Europe/London}
  office: {weekly: "MON-FRI 09:00-17:00", timezone: Europe/London}
  past: {dates: [2020-12-25]}
jobs:
  hourly: {schedule: "@hourly", timezone: Europe/London, command: [echo], calendars: {only: [office], exclude: [holidays]}}
  report: {schedule: "30 2 * * *", timezone: Europe/London, command: [echo], calendars: {exclude: [holidays], otherwise: next}}
  never: {schedule: "@hourly", command: [echo], calendars: {only: [past]}}
`

// Output and exit codes of the offline commands.
func TestOfflineCommands(t *testing.T) {
	for name, args := range map[string][]string{
		"help-next":             {"next", "--help"},
		"unknown-command":       {"valdate"},
		"unknown-subcommand":    {"migrate", "upp"},
		"unknown-flag":          {"validate", "--colour"},
		"unknown-output":        {"version", "-o", "xml"},
		"unknown-command-far":   {"start"},
		"unknown-flag-far":      {"jobs", "list", "--quux"},
		"unknown-flag-short":    {"jobs", "list", "-z"},
		"flag-without-value":    {"serve", "--listen"},
		"flag-wrong-number":     {"tasks", "list", "--limit", "many"},
		"flag-wrong-truth":      {"jobs", "list", "--insecure=perhaps"},
		"flag-spelling":         {"jobs", "list", "--=x"},
		"flag-missing":          {"token", "create", "--name", "ci"},
		"missing-argument":      {"jobs", "run"},
		"no-argument-wanted":    {"serve", "lockstep.yaml"},
		"expression-unquoted":   {"next", "30", "1", "*", "*", "*"},
		"completion-too-many":   {"completion", "bash", "x"},
		"completion-unknown":    {"completion", "bsh"},
		"too-many-arguments":    {"validate", "a", "b"},
		"validate-no-file":      {"validate"},
		"validate-missing":      {"validate", "missing.yaml"},
		"validate":              {"validate", "example.yaml"},
		"validate-json":         {"validate", "example.yaml", "-o", "json"},
		"validate-yaml":         {"validate", "example.yaml", "-o", "yaml"},
		"validate-errors":       {"validate", "broken.yaml"},
		"validate-warnings":     {"validate", "empty.yaml"},
		"next-job":              {"next", "-c", "example.yaml", "nightly", "-n", "3"},
		"next-job-unknown":      {"next", "-c", "example.yaml", "nihgtly"},
		"next-job-on-demand":    {"next", "-c", "example.yaml", "by-hand"},
		"next-json":             {"next", "30 1 * * *", "--timezone", "Europe/London", "-n", "2", "-o", "json"},
		"next-yaml":             {"next", "@hourly", "-n", "2", "-o", "yaml"},
		"next-from":             {"next", "0 0 29 2 *", "--from", "2026-01-01", "-n", "2"},
		"next-from-offset":      {"next", "@daily", "--from", "2026-10-25T00:30:00+02:00", "-n", "2"},
		"next-from-zone":        {"next", "@daily", "--from", "2026-05-31T23:30", "--timezone", "Europe/London", "-n", "1"},
		"next-from-at":          {"next", "0 0 29 2 *", "--from", "2028-02-29", "-n", "1"},
		"next-from-never":       {"next", "@at 2028-02-29T00:00:00Z", "--from", "2028-02-29T00:00:01Z"},
		"next-all-from-at":      {"next", "-c", "example.yaml", "--from", "2026-12-01T00:03:56Z", "-n", "1"},
		"next-server":           {"next", "-c", "example.yaml", "--server", "http://127.0.0.1:8080"},
		"next-expression-file":  {"next", "-c", "example.yaml", "@daily"},
		"validate-server":       {"validate", "example.yaml", "--ca-file", "ca.pem"},
		"validate-two-files":    {"validate", "example.yaml", "-c", "busy.yaml"},
		"simulate-insecure":     {"simulate", "-c", "example.yaml", "--insecure"},
		"plan-file-and-server":  {"plan", "-c", "example.yaml", "new.yaml", "--server", "http://127.0.0.1:8080"},
		"plan-ca-file":          {"plan", "-c", "example.yaml", "new.yaml", "--ca-file", "ca.pem"},
		"next-from-wrong":       {"next", "@daily", "--from", "tomorrow"},
		"next-number-wrong":     {"next", "@daily", "-n", "0"},
		"next-zone-wrong":       {"next", "@daily", "--timezone", "Mars/X"},
		"next-expression-wrong": {"next", "61 * * * *"},
		"next-never":            {"next", "0 0 30 2 *"},
		"next-past":             {"next", "@at 2020-01-01T00:00:00+01:00"},
		"next-hash-no-job":      {"next", "H H * * *"},
		"next-hash":             {"next", "H H(9-17) LW * *", "--job", "nightly-backup", "-n", "2", "--timezone", "Europe/London"},
		"next-hash-of-job":      {"next", "-c", "example.yaml", "nightly", "--job", "other"},
		"next-hash-no-name":     {"next", "H H * * *", "--job", "nightly backup"},
		"next-hash-empty":       {"next", "H H * * *", "--job", ""},
		"next-bounds":           {"next", "-c", "example.yaml", "december", "--from", "2026-12-29"},
		"next-calendars":        {"next", "-c", "calendars.yaml", "hourly", "-n", "9"},
		"next-calendars-json":   {"next", "-c", "calendars.yaml", "report", "-n", "3", "-o", "json"},
		"next-calendars-next":   {"next", "-c", "calendars.yaml", "report", "--from", "2026-03-30T12:00", "-n", "2"},
		"next-all-calendars":    {"next", "-c", "calendars.yaml", "-n", "4"},
		"simulate-calendars":    {"simulate", "-c", "calendars.yaml", "--to", "3d"},
		"plan-calendars":        {"plan", "-c", "calendars.yaml", "later.yaml"},
		"next-calendars-never":  {"next", "-c", "calendars.yaml", "never"},
		"validate-calendars":    {"validate", "calendars.yaml"},
		"next-jitter":           {"next", "-c", "example.yaml", "spread", "--from", "2026-12-01", "-n", "2"},
		"next-jitter-json":      {"next", "-c", "example.yaml", "spread", "--from", "2026-12-01", "-n", "2", "-o", "json"},
		"next-jitter-nameless":  {"next", "-c", "nameless.yaml", "spread", "--from", "2026-12-01", "-n", "2"},
		"next-jitter-unknown":   {"next", "-c", "nameless.yaml", "spread", "--from", "2026-12-01", "-n", "1", "-o", "json"},
		"next-jitter-zone":      {"next", "-c", "example.yaml", "spread", "--from", "2026-12-01", "-n", "1", "--timezone", "Europe/Berlin"},
		"next-no-argument":      {"next"},
		"next-all":              {"next", "-c", "example.yaml", "-n", "5"},
		"next-all-json":         {"next", "-c", "example.yaml", "-n", "2", "-o", "json"},
		"next-all-zone":         {"next", "-c", "example.yaml", "-n", "3", "--from", "2026-11-30T18:00", "--until", "2026-12-01T00:00:01Z", "--timezone", "America/New_York"},
		"next-all-none":         {"next", "-c", "example.yaml", "--until", "2026-03-28T12:00:01Z"},
		"next-all-label":        {"next", "-c", "example.yaml", "--label", "team=infra", "--label", "tier=1", "-n", "2"},
		"next-all-label-none":   {"next", "-c", "example.yaml", "--label", "team=infra", "--label", "tier=2"},
		"next-all-label-wrong":  {"next", "-c", "example.yaml", "--label", "infra"},
		"next-all-label-twice":  {"next", "-c", "example.yaml", "--label", "team=a", "--label", "team=b"},
		"next-all-job":          {"next", "-c", "example.yaml", "--job", "nightly"},
		"next-label-of-job":     {"next", "-c", "example.yaml", "nightly", "--label", "team=infra"},
		"next-until":            {"next", "-c", "example.yaml", "nightly", "--until", "2026-03-30"},
		"next-until-past":       {"next", "@daily", "--until", "2026-03-28"},
		"simulate":              {"simulate", "-c", "example.yaml"},
		"simulate-days":         {"simulate", "-c", "example.yaml", "--from", "2026-10-01", "--to", "2026-12-31", "--timezone", "Europe/London"},
		"simulate-json":         {"simulate", "-c", "example.yaml", "--to", "2026-03-29T02:00", "--step", "1h", "-o", "json"},
		"simulate-busy":         {"simulate", "-c", "busy.yaml", "--to", "20m"},
		"simulate-cut":          {"simulate", "-c", "busy.yaml", "--max-due", "10", "--to", "1h"},
		"simulate-nothing":      {"simulate", "-c", "example.yaml", "--to", "1m"},
		"simulate-label":        {"simulate", "-c", "example.yaml", "--label", "team=infra", "--to", "2d", "--step", "12h"},
		"simulate-backwards":    {"simulate", "-c", "example.yaml", "--to", "2026-03-28T12:00"},
		"simulate-too-long":     {"simulate", "-c", "example.yaml", "--to", "2028-01-01"},
		"simulate-year-long":    {"simulate", "-c", "example.yaml", "--to", "367d"},
		"simulate-step-wrong":   {"simulate", "-c", "example.yaml", "--step", "90s"},
		"simulate-to-wrong":     {"simulate", "-c", "example.yaml", "--to", "soon"},
		"simulate-max-wrong":    {"simulate", "-c", "example.yaml", "--max-due", "0"},
		"plan":                  {"plan", "-c", "example.yaml", "new.yaml"},
		"plan-json":             {"plan", "-c", "example.yaml", "new.yaml", "-o", "json", "--exit-code"},
		"plan-ping":             {"plan", "-c", "ping.yaml", "other-ping.yaml", "--exit-code"},
		"plan-ping-added":       {"plan", "-c", "empty.yaml", "ping.yaml", "--exit-code"},
		"plan-ping-removed":     {"plan", "-c", "ping.yaml", "empty.yaml", "--exit-code"},
		"plan-same":             {"plan", "-c", "example.yaml", "example.yaml", "--exit-code"},
		"plan-changes":          {"plan", "-c", "empty.yaml", "busy.yaml", "--exit-code"},
		"plan-errors":           {"plan", "-c", "example.yaml", "broken.yaml"},
		"plan-no-file":          {"plan", "-c", "example.yaml"},
		"migrate-sql-no-file":   {"migrate", "sql"},
		"serve-id-wrong":        {"serve", "-c", "example.yaml", "--id", "a b", "--listen", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range map[string]string{
				"example.yaml":  example,
				"empty.yaml":    "version: 1\n",
				"nameless.yaml": strings.Replace(example, "name: prod\n", "", 1),
				"busy.yaml":     busy,

				"calendars.yaml":  exampleCalendars,
				"ping.yaml":       busy + "ping: {url: \"http://127.0.0.1:9000/secret\"}\n",
				"other-ping.yaml": busy + "ping: {url: \"http://127.0.0.1:9000/other\", every: 5m}\n",
				"later.yaml":      strings.Replace(exampleCalendars, "2026-03-30", "2026-03-29", 1),
				"new.yaml":        changed,
				"broken.yaml":     "version: 1\nnmae: x\njobs:\n  a: {command: [echo], timeout: 30}\n",
			} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := filepath.Abs(filepath.Join("testdata", "golden", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(folder)
			r := call(t, []string{"PATH=" + os.Getenv("PATH")}, args...)
			got := fmt.Sprintf("$ scheduler %s\nexit code %d\n--- stdout\n%s--- stderr\n%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// validate and next exit with 2 for each malformed configuration, and name the place.
func TestBadConfigurationsExitWithTwo(t *testing.T) {
	folder := filepath.Join("..", "..", "config", "testdata", "bad")
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	t.Chdir(folder)
	for _, file := range files {
		file = filepath.Base(file)
		for _, args := range [][]string{{"validate", file}, {"-c", file, "next", "job"}} {
			r := call(t, nil, args...)
			if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, ".yaml:") {
				t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
			}
		}
		var got struct {
			Errors config.Errors `json:"errors"`
		}
		r := call(t, nil, "validate", file, "-o", "json")
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != exitUsage || len(got.Errors) == 0 || got.Errors[0].File == "" || got.Errors[0].Problem == "" {
			t.Errorf("%s for programs: %v, exit code %d, stdout %q", file, err, r.code, r.stdout)
		}
	}
}

func TestConfigurationIsFound(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(file, job string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("version: 1\njobs: {"+job+": {schedule: \"@daily\", command: [echo]}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	find := func(environ []string, args ...string) string {
		t.Helper()
		r := call(t, environ, append([]string{"validate", "-o", "json"}, args...)...)
		for _, job := range []string{"here", "variable", "flag", "argument"} {
			if strings.Contains(r.stdout, `"`+job+`"`) {
				return job
			}
		}
		return fmt.Sprintf("exit code %d: %s", r.code, r.stderr)
	}
	if got := find(nil); !strings.HasPrefix(got, "exit code 2") || !strings.Contains(got, "scheduler init") {
		t.Errorf("without a file: %s", got)
	}
	write("lockstep.yaml", "here")
	write("v.yaml", "variable")
	write("f.yaml", "flag")
	write("a.yaml", "argument")
	environ := []string{"LOCKSTEP_CONFIG=v.yaml"}
	for _, got := range []struct{ got, want string }{
		{find(nil), "here"},
		{find(environ), "variable"},
		{find(environ, "-c", "f.yaml"), "flag"},
		{find(environ, "a.yaml"), "argument"},
	} {
		if got.got != got.want {
			t.Errorf("found %s, want %s", got.got, got.want)
		}
	}
}

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	r := call(t, nil, "init")
	if r.code != exitFine || !strings.Contains(r.stdout, "Wrote lockstep.yaml") {
		t.Fatalf("%+v", r)
	}
	environ := []string{"PATH=" + os.Getenv("PATH")}
	if r := call(t, environ, "validate"); r.code != exitFine || r.stderr != "" || !strings.Contains(r.stdout, "hello") {
		t.Errorf("what init wrote: %+v", r)
	}
	if err := os.WriteFile("lockstep.yaml", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := call(t, nil, "init"); r.code != exitFailed || !strings.Contains(r.stderr, "--force") {
		t.Errorf("over an existing file: %+v", r)
	}
	if data, err := os.ReadFile("lockstep.yaml"); err != nil || string(data) != "mine" {
		t.Errorf("the existing file: %q, %v", data, err)
	}
	if r := call(t, nil, "init", "--force"); r.code != exitFine {
		t.Errorf("with --force: %+v", r)
	}
	if data, err := os.ReadFile("lockstep.yaml"); err != nil || !bytes.Equal(data, startFile) {
		t.Errorf("with --force: %q, %v", data, err)
	}
	if r := call(t, nil, "init", "other.yaml"); r.code != exitFine || !strings.Contains(r.stdout, "-c other.yaml serve") {
		t.Errorf("with a name: %+v", r)
	}
	if r := call(t, nil, "init", filepath.Join("no", "folder.yaml")); r.code != exitFailed {
		t.Errorf("without a folder: %+v", r)
	}
}

// The program without a command, and a group without one, lists its commands.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"migrate"}, {"help", "next"}} {
		r := call(t, nil, args...)
		if r.code != exitFine || r.stderr != "" || !strings.Contains(r.stdout, "Usage:\n  scheduler") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// run uses arguments, environment and clock of the process.
func TestRunReadsTheProcess(t *testing.T) {
	t.Setenv("LOCKSTEP_CONFIG", filepath.Join(t.TempDir(), "missing.yaml"))
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"validate"}, strings.NewReader(""), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "missing.yaml: no such file") {
		t.Errorf("exit code %d, stderr %s", code, &stderr)
	}
	stderr.Reset()
	for _, asked := range []string{"version", "--version"} {
		stdout.Reset()
		if code := run(context.Background(), []string{asked}, strings.NewReader(""), &stdout, &stderr); code != exitFine || stdout.String() != line(readBuildInfo())+"\n" || !strings.HasPrefix(stdout.String(), "scheduler ") {
			t.Errorf("%s: exit code %d, stdout %s", asked, code, &stdout)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lockstep.yaml", []byte("version: 1\njobs: {a: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"PATH=" + os.Getenv("PATH")}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"migrate", "sql"}, "CREATE TABLE IF NOT EXISTS lockstep_"},
		{[]string{"migrate", "status"}, "pending"},
		{[]string{"migrate", "up"}, "0001"},
		{[]string{"migrate", "status", "-o", "json"}, `"applied_at": "20`},
		{[]string{"migrate", "up"}, "0001"},
	} {
		r := call(t, environ, step.args...)
		if r.code != exitFine || r.stderr != "" || !strings.Contains(r.stdout, step.want) {
			t.Errorf("%v: %+v", step.args, r)
		}
	}
}
