package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// load reads a configuration without its first line.
func load(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\n"+text), options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused reads a configuration that must be refused, and returns why.
func refused(t testing.TB, text string) string {
	t.Helper()
	_, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\n"+text), options)
	if err == nil {
		t.Fatalf("accepted:\n%s", text)
	}
	return err.Error()
}

func TestDefaults(t *testing.T) {
	got := load(t, "")
	want := config.Default()
	want.Path = "lockstep.yaml"
	want.Store.DSN = "lockstep.db"
	want.Lock.Driver = config.SQLite
	want.Set = jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{}}
	want.Warnings = got.Warnings
	got.Settings = nil // TestWhatNeedsARestart
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].Problem, "no jobs") {
		t.Errorf("warnings: %v", got.Warnings)
	}
}

// Labels of a replica are validated like those of jobs.
func TestLabelsOfAReplica(t *testing.T) {
	got := refused(t, "replica:\n  labels:\n    zone: a\n    rack 7: b\n    rack: "+strings.Repeat("b", 256)+"\n")
	for _, want := range []string{`lockstep.yaml:5:13: replica.labels.rack 7: "rack 7" is not a name`, "lockstep.yaml:6:11: replica.labels.rack: must be at most 255 bytes"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestByteOrderMarkAndCarriageReturns(t *testing.T) {
	text := "\ufeffversion: 1\r\nname: prod\r\njobs:\r\n  a:\r\n    command: [echo]\r\n"
	c, err := config.LoadBytes("lockstep.yaml", []byte(text), options)
	if err != nil {
		t.Fatal(err)
	}
	if c.Set.Name != "prod" || len(c.Set.Jobs) != 1 {
		t.Errorf("name %q, %d jobs", c.Set.Name, len(c.Set.Jobs))
	}
}

func TestVariables(t *testing.T) {
	c := load(t, `
name: ${NAME}
replica:
  id: a-${NAME}-${NONE:-b}-${EMPTY:-c}-${NONE:-${NAME}}
  workers: ${N}
  session_ttl: "${TTL}"
  labels: {dollar: "$$HOME", empty: "${EMPTY}", yaml: "${YAML}"}
jobs:
  a:
    description: $${NAME}
    command: ["echo", "$HOME ${NOT_SET}"]
    payload: {text: "${NOT_SET}"}
`)
	labels := map[string]string{"dollar": "$HOME", "empty": "", "yaml": "hunter2: [1, 2]"}
	want := scheduler.Options{
		ID: "a-prod-b-c-prod", Workers: 8, Labels: labels,
		SessionTTL: 12 * time.Second, DrainTimeout: 25 * time.Second, MaxClockSkew: 2 * time.Second,
	}
	if diff := cmp.Diff(want, c.Replica); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := c.Set.Jobs["a"].Description; got != "${NAME}" {
		t.Errorf("description %q", got)
	}
	if got := payload(c, "a"); got != `{"text":"${NOT_SET}"}` {
		t.Errorf("payload %s", got)
	}
}

func TestDefaultsOfJobsMergeKeyByKey(t *testing.T) {
	c := load(t, `
jobs:
  a:
    command: [echo]
    retries: {limit: 5}
    labels: {team: web}
    catch_up: {policy: all}
  b: {command: [echo]}
defaults:
  timezone: Europe/London
  retries: {limit: 2, backoff: 3s}
  labels: {team: infra, tier: gold}
  catch_up: {window: 3h}
`)
	a, b := c.Set.Jobs["a"], c.Set.Jobs["b"]
	a.Handler, b.Handler = nil, nil
	want := jobs.Job{
		Timezone: "Europe/London",
		Retries:  jobs.Retries{Limit: 5, Backoff: 3 * time.Second},
		Labels:   map[string]string{"team": "web", "tier": "gold"},
		CatchUp:  jobs.CatchUp{Policy: jobs.CatchUpAll, Window: 3 * time.Hour},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("a (-want +got)\n%s", diff)
	}
	want.Retries.Limit = 2
	want.Labels = map[string]string{"team": "infra", "tier": "gold"}
	want.CatchUp.Policy = ""
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("b (-want +got)\n%s", diff)
	}
}

// A pool has the rate and the burst that its file names, as text, from a variable, or 0 as a number.
func TestRatesOfPools(t *testing.T) {
	c := load(t, `
pools:
  a: {rate: 50/s, burst: 200}
  b: {rate: "20/10s"}
  c: {rate: "${N}/m", burst: "${N}"}
  d: {rate: 0, burst: 0}
  e: {rate: "0"}
  f: {rate: 1/d, burst: 366}
  g: {}
`)
	want := map[string]jobs.Pool{
		"a": {Rate: jobs.Rate{Count: 50, Per: time.Second}, Burst: 200},
		"b": {Rate: jobs.Rate{Count: 20, Per: 10 * time.Second}},
		"c": {Rate: jobs.Rate{Count: 8, Per: time.Minute}, Burst: 8},
		"d": {},
		"e": {},
		"f": {Rate: jobs.Rate{Count: 1, Per: 24 * time.Hour}, Burst: 366},
		"g": {},
	}
	if diff := cmp.Diff(want, c.Set.Pools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Codes of defaults are for jobs that are retried and whose failures have codes. A list of the job itself takes their place, also an empty one.
func TestRetriesOn(t *testing.T) {
	c := load(t, `
defaults: {retries: {limit: 2, on: [75, 503]}}
pools:
  p: {command: [cat], retries: {on: [1, "${N}", 599]}}
  w: {worker: {}}
jobs:
  inherits: {command: [echo]}
  empty: {command: [echo], retries: {}}
  own: {command: [echo], retries: {on: [2]}}
  longer: {command: [echo], retries: {limit: 3}}
  anything: {command: [echo], retries: {on: []}}
  nothing: {command: [echo], retries: {on: }}
  never: {command: [echo], retries: {limit: 0}}
  pooled: {pool: p}
  worked: {pool: w}
`)
	for name, want := range map[string][]int{
		"inherits": {75, 503}, "empty": {75, 503}, "own": {2}, "longer": {75, 503}, "anything": nil, "nothing": nil, "never": nil, "pooled": {75, 503}, "worked": nil,
	} {
		if diff := cmp.Diff(want, c.Set.Jobs[name].Retries.On); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]int{1, 8, 599}, c.Set.Pools["p"].Retries.On); diff != "" {
		t.Errorf("the pool: (-want +got)\n%s", diff)
	}
}

// A job has the priority of the file, else that of defaults.
func TestPriority(t *testing.T) {
	c := load(t, `
defaults: {priority: -5}
jobs:
  a: {command: [echo]}
  b: {command: [echo], priority: 100}
  c: {command: [echo], priority: 0}
  d: {command: [echo], priority: -100}
`)
	for name, want := range map[string]int{"a": -5, "b": 100, "c": 0, "d": -100} {
		if got := c.Set.Jobs[name].Priority; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// A job has the slots of the file, else those of defaults, where they have an effect.
func TestSlots(t *testing.T) {
	c := load(t, `
defaults: {max_running: 3, queue_limit: 7, concurrency: queue}
jobs:
  a: {command: [echo]}
  b: {command: [echo], concurrency: replace, max_running: 2}
  c: {command: [echo], concurrency: allow}
  d: {command: [echo], queue_limit: 20}
  e: {command: [echo], concurrency: forbid}
`)
	for name, want := range map[string]jobs.Job{
		"a": {Concurrency: jobs.Queue, MaxRunning: 3, QueueLimit: 7}, "b": {Concurrency: jobs.Replace, MaxRunning: 2}, "c": {Concurrency: jobs.Allow},
		"d": {Concurrency: jobs.Queue, MaxRunning: 3, QueueLimit: 20}, "e": {Concurrency: jobs.Forbid, MaxRunning: 3},
	} {
		if got := c.Set.Jobs[name]; got.Concurrency != want.Concurrency || got.MaxRunning != want.MaxRunning || got.QueueLimit != want.QueueLimit {
			t.Errorf("%s: %s, %d at once, %d wait", name, got.Concurrency, got.MaxRunning, got.QueueLimit)
		}
	}
}

// Pools and jobs have the lost_limit of the file, jobs that of its defaults; its default changes no hash.
func TestLostLimits(t *testing.T) {
	c := load(t, `
defaults: {lost_limit: 5}
pools: {a: {lost_limit: 100}, b: {lost_limit: 3}, c: {}}
jobs: {x: {command: [echo], lost_limit: 1}, y: {command: [echo]}}
`)
	for name, want := range map[string]int{"a": 100, "b": 3, "c": 0} {
		if got := c.Set.Pools[name].LostLimit; got != want {
			t.Errorf("pool %s: %d", name, got)
		}
	}
	for name, want := range map[string]int{"x": 1, "y": 5} {
		if got := c.Set.Jobs[name].LostLimit; got != want {
			t.Errorf("job %s: %d", name, got)
		}
	}
	if a, b, none := c.Set.Pools["a"].Hash(), c.Set.Pools["b"].Hash(), c.Set.Pools["c"].Hash(); b != none || a == none {
		t.Errorf("hashes: 100 %s, 3 %s, none %s", a, b, none)
	}
	if x, y := (jobs.Job{LostLimit: 3}).Hash(), (jobs.Job{LostLimit: 4}).Hash(); x != (jobs.Job{}).Hash() || x == y {
		t.Errorf("hashes: 3 %s, 4 %s", x, y)
	}
}

// A pool has the limits and the order by key that its file names: the same as in a Go program.
func TestKeysOfPools(t *testing.T) {
	c := load(t, `
pools:
  a: {per_key: {max_running: 1, rate: 5/s, burst: 10}, order: key}
  b: {per_key: {max_running: "${N}", rate: "${N}/m", burst: "${N}"}, order: none}
  c: {per_key: {max_running: 0, rate: 0, burst: 0}}
  d: {per_key: {}, max_running: 3, rate: 1/s, burst: 2}
  e: {per_key: , order: key}
  f: {}
  g: {fair: {weights: {big: 3, "a b": "${N}"}}}
  h: {fair: }
  i: {fair: {}}
  j: {per_kind: {sms: {max_running: 1, rate: "${N}/s", burst: 10}}}
  k: {pause_on: {failures: 50%, of: 100}}
`)
	want := map[string]jobs.Pool{
		"a": {PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 5, Per: time.Second}, Burst: 10}, Order: jobs.OrderKey},
		"b": {PerKey: jobs.KeyLimits{MaxRunning: 8, Rate: jobs.Rate{Count: 8, Per: time.Minute}, Burst: 8}, Order: jobs.OrderNone},
		"c": {},
		"d": {MaxRunning: 3, Rate: jobs.Rate{Count: 1, Per: time.Second}, Burst: 2},
		"e": {Order: jobs.OrderKey},
		"f": {},
		"g": {Fair: &jobs.Fair{Weights: map[string]int{"big": 3, "a b": 8}}},
		"h": {Fair: &jobs.Fair{}},
		"i": {Fair: &jobs.Fair{}},
		"j": {PerKind: map[string]jobs.KindLimits{"sms": {MaxRunning: 1, Rate: jobs.Rate{Count: 8, Per: time.Second}, Burst: 10}}},
		"k": {PauseOn: jobs.PauseOn{Failures: 50, Of: 100}},
	}
	if diff := cmp.Diff(want, c.Set.Pools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, pool := range want {
		if got := c.Set.Pools[name].Hash(); got != pool.Hash() {
			t.Errorf("%s: the hash from the file is %s, from Go %s", name, got, pool.Hash())
		}
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := load(t, `
x-slow: &slow {timeout: 9h, labels: {speed: slow}}
x-late: &late {timeout: 1h, suspend: true}
jobs:
  a: {<<: *slow, command: [echo]}
  b: {<<: [*slow, *late], command: [echo], timeout: 2h}
  c: &c {command: [echo], description: first}
  d: {<<: *c, description: second}
`)
	a, b, d := c.Set.Jobs["a"], c.Set.Jobs["b"], c.Set.Jobs["d"]
	if a.Timeout != 9*time.Hour || a.Labels["speed"] != "slow" || a.Suspend {
		t.Errorf("a: %+v", a)
	}
	if b.Timeout != 2*time.Hour || b.Labels["speed"] != "slow" || !b.Suspend {
		t.Errorf("b: %+v", b)
	}
	if d.Description != "second" || d.Handler == nil {
		t.Errorf("d: %+v", d)
	}
}

func TestPayload(t *testing.T) {
	c := load(t, `
x-a: &a {k: 1}
jobs:
  a:
    command: [cat]
    payload: {z: 1, a: [1.5, -2e3, 0x1F, true, null, ~, no, 2024-01-01, "010", "<&>\n"], m: {<<: *a, b: 12345678901234567890123}}
  b: {command: [cat], payload: hello}
  c: {command: [cat]}
`)
	want := `{"z":1,"a":[1.5,-2e3,31,true,null,null,"no","2024-01-01","010","<&>\n"],"m":{"b":12345678901234567890123,"k":1}}`
	if got := payload(c, "a"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := payload(c, "b"); got != `"hello"` {
		t.Errorf("got %s", got)
	}
	if got := c.Set.Jobs["c"].Payload; got != nil {
		t.Errorf("got %s", got)
	}
}

func TestMySQLSettings(t *testing.T) {
	c := load(t, "store: {driver: mysql, dsn: \"u:p@tcp(db:3306)/a\"}\njobs: {a: {command: [echo]}}\n")
	if c.Lock.Driver != config.MySQL || c.Lock.MySQL.DSN != "u:p@tcp(db:3306)/a" || c.Lock.MySQL.Mode != "lease" {
		t.Errorf("lock: %+v", c.Lock)
	}
	c = load(t, "store: {driver: mysql, dsn: \"u:p@tcp(db:3306)/a\"}\nlock: {mysql: {dsn: \"u:p@tcp(db:3306)/b\", mode: row}}\n")
	if c.Lock.MySQL.DSN != "u:p@tcp(db:3306)/b" || c.Lock.MySQL.Mode != "row" {
		t.Errorf("lock: %+v", c.Lock)
	}
}

func TestListen(t *testing.T) {
	for addr, fine := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:0": true, "localhost:1": true, "127.9.9.9:80": true,
		"0.0.0.0:80": false, "[::]:80": false, ":80": false, "10.0.0.1:80": false, "127.0.0.1": false,
		"127.0.0.1:http": false, "127.0.0.1:65536": false, "localhost.evil:80": false, "127.0.0.1:+80": false, "": false,
	} {
		if err := (config.Server{Listen: addr}).Check(); (err == nil) != fine {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// Other machines may reach the API with tokens and TLS, or with server.insecure.
func TestServer(t *testing.T) {
	for text, want := range map[string]struct{ problem, exposed string }{
		`{listen: "0.0.0.0:80", auth: {tokens_file: t}, tls: {cert_file: c, key_file: k}}`:       {},
		`{listen: ":80", auth: {tokens_file: t}, tls: {cert_file: c, key_file: k}}`:              {},
		`{listen: "sched.example:80", auth: {tokens_file: t}, tls: {cert_file: c, key_file: k}}`: {},
		`{listen: "127.0.0.1:80", insecure: true}`:                                               {},
		`{listen: "0.0.0.0:80"}`:                                                                           {problem: "tokens_file"},
		`{listen: "0.0.0.0:80", insecure: false}`:                                                          {problem: "tokens_file"},
		`{listen: "0.0.0.0:80", auth: {tokens_file: t}}`:                                                   {problem: "in plain text; set server.tls.cert_file"},
		`{listen: "0.0.0.0:80", tls: {cert_file: c, key_file: k}}`:                                         {problem: "tokens_file"},
		`{listen: "0.0.0.0:80", insecure: true}`:                                                           {exposed: "may do everything"},
		`{listen: "0.0.0.0:80", insecure: true, auth: {tokens_file: t}}`:                                   {exposed: "tokens cross the network"},
		`{listen: "0.0.0.0:80", insecure: true, tls: {cert_file: c, key_file: k}}`:                         {exposed: "may do everything"},
		`{listen: "0.0.0.0:80", insecure: true, auth: {tokens_file: t}, tls: {cert_file: c, key_file: k}}`: {},
		`{listen: "127.0.0.1:80", insecure: true, tls: {cert_file: c}}`:                                    {problem: "set both"},
	} {
		c, err := config.LoadBytes("/etc/lockstep/lockstep.yaml", []byte("version: 1\nserver: "+text+"\njobs: {a: {command: [echo]}}\n"), options)
		if want.problem != "" {
			if err == nil || !strings.Contains(err.Error(), want.problem) || !strings.HasPrefix(err.Error(), "/etc/lockstep/lockstep.yaml:2:") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Server.Exposed(); !strings.Contains(got, want.exposed) || (got == "") != (want.exposed == "") {
			t.Errorf("%s: exposed %q", text, got)
		}
		if file := c.Server.TokensFile; file != "" && file != "/etc/lockstep/t" {
			t.Errorf("%s: tokens in %s", text, file)
		}
	}
	c := load(t, `server: {hosts: [Sched.example.com, "10.1.1.1", "::1"], trusted_proxies: [10.0.0.0/8, "192.168.1.7", "fd00::1"]}`+"\n")
	if got := fmt.Sprint(c.Server.Hosts, c.Server.TrustedProxies); got != "[Sched.example.com 10.1.1.1 ::1] [10.0.0.0/8 192.168.1.7/32 fd00::1/128]" {
		t.Error(got)
	}
}

// The number of errors is bounded, and reaching the bound is reported.
func TestManyErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("jobs:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  j%d: {comand: [echo]}\n", i)
	}
	lines := strings.Split(refused(t, b.String()), "\n")
	if len(lines) != 1001 || !strings.Contains(lines[1000], "and perhaps more") {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestTooLarge(t *testing.T) {
	data := append([]byte("version: 1\n#"), bytes.Repeat([]byte("x"), 64<<20)...)
	if _, err := config.LoadBytes("big.yaml", data, options); err == nil || !strings.Contains(err.Error(), "is larger than 64 MiB") {
		t.Errorf("error %v", err)
	}
}

// A folder in the place of a configuration, or of an included file, is said to be one, with what to write.
func TestFoldersAreNoFiles(t *testing.T) {
	folder := t.TempDir()
	main := write(t, folder, "lockstep.yaml", "version: 1\ninclude: [jobs.d]\njobs: {}\n", 0o600)
	jobsOf := filepath.Dir(write(t, folder, "jobs.d/a.yaml", "jobs: {}\n", 0o600))
	for path, want := range map[string]string{
		folder: folder + ": is a folder; name the configuration in it, as in " + main,
		main:   main + ":2:11: include[0]: " + jobsOf + ": is a folder; name the files in it, as in " + filepath.Join(jobsOf, "*.yaml"),
	} {
		if _, err := config.Load(path, options); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestUnreadable(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "none.yaml"), folder} {
		if _, err := config.Load(path, options); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// manyJobs is a configuration of n jobs with their own times.
func manyJobs(n int) []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\njobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  job-%06d:\n    schedule: \"%d %d * * *\"\n    command: [\"/bin/echo\", \"hello\", \"%d\"]\n    timeout: 10m\n    labels: {team: infra}\n", i, i%60, i/60%24, i)
	}
	return b.Bytes()
}

// A file that is parsed in parts is what it is as a whole, and so is what is wrong with it.
func TestLargeFile(t *testing.T) {
	text := manyJobs(12_000)
	whole, inParts := options, options
	whole.Processors, inParts.Processors = 1, 3
	a, err := config.LoadBytes("lockstep.yaml", text, whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := config.LoadBytes("lockstep.yaml", text, inParts)
	if err != nil || !reflect.DeepEqual(a.Set, b.Set) {
		t.Errorf("in parts it is another set; %v", err)
	}
	for _, wrong := range []string{"    timeuot: 1m\n", "  job-000000: {}\n", "  job-x: [\n"} {
		text := append(slices.Clone(text), wrong...)
		_, one := config.LoadBytes("lockstep.yaml", text, whole)
		_, two := config.LoadBytes("lockstep.yaml", text, inParts)
		if one == nil || two == nil || one.Error() != two.Error() || !strings.Contains(one.Error(), "lockstep.yaml:6000") {
			t.Errorf("%q: %v; in parts: %v", wrong, one, two)
		}
	}
}

// 100,000 jobs must load within two seconds.
func BenchmarkLoad100k(b *testing.B) {
	data := manyJobs(100_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := config.LoadBytes("lockstep.yaml", data, options)
		if err != nil || len(c.Set.Jobs) != 100_000 {
			b.Fatal(err)
		}
	}
}

// payload is that of a job, as text.
func payload(c *config.Config, job string) string {
	return string(c.Set.Jobs[job].Payload.(json.RawMessage))
}
